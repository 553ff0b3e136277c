"""Tensors in parts: however they were divided by writers, readers get what slicing would give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .dividing import WRITERS, load, others, par, read_all, same, target, tp, write
from .shelf import Memory

REFUSED = -600
TYPES = {1: np.uint8, 2: np.float16, 4: np.float32, 8: np.int64}


@st.composite
def divisions(draw: st.DrawFn) -> tuple[Any, tuple[int, int], tuple[int, int]]:
    """A tensor, and two ways to divide it."""
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    dtype = TYPES[draw(st.sampled_from(sorted(TYPES)))]
    array = np.arange(np.prod(shape), dtype=np.int64).reshape(shape).astype(dtype)

    def place() -> tuple[int, int]:
        dim = draw(st.integers(0, len(shape) - 1))
        sizes = [size for size in range(1, (shape[dim] or 3) + 1) if shape[dim] % size == 0]
        return draw(st.sampled_from(sizes)), dim

    return array, place(), place()


def check(shelf: Any, how: str, division: Any) -> None:
    array, written, wanted = division
    store = shelf()
    write(store, how, array, *written)
    read_all(store, how, array, *wanted)


@given(how=st.sampled_from(WRITERS), division=divisions())
@settings(max_examples=20, deadline=None)
def test_parts_are_what_slicing_gives(shelf: Any, how: str, division: Any) -> None:
    check(shelf, how, division)


@pytest.mark.slow
@given(how=st.sampled_from(WRITERS), division=divisions())
@settings(max_examples=500, deadline=None)
def test_parts_are_what_slicing_gives_in_full(shelf: Any, how: str, division: Any) -> None:
    check(shelf, how, division)


@pytest.mark.parametrize("how", WRITERS)
def test_every_way_to_write(shelf: Any, how: str) -> None:
    array = np.arange(144, dtype=np.float32).reshape(12, 12)
    for wanted in [(4, 0), (3, 0), (6, 1)]:
        check(shelf, how, (array, (4, 0), wanted))


def test_a_part_that_is_missing_or_another_makes_no_tensor(shelf: Any) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    whole = target("full", par(tp(0, 2, 0)))
    for damage in [
        lambda store: store.objects.pop("k_tp_1"),
        lambda store: store.upsert_tensor_with_parallelism("k", array[:1], par(tp(1, 4, 0))),
        lambda store: store.upsert_tensor("k_tp_1", array[:2]),
        lambda store: store.upsert_parts("k_tp_1", store.objects["k_tp_0"]),
        lambda store: store.upsert_parts("k_tp_1", store.objects["k_tp_1"][:-1]),
    ]:
        store, memory = shelf(), Memory()
        write(store, "tp", array, 2, 0)
        damage(store)
        assert store.get_tensor_with_parallelism("k", whole) is None
        assert store.get_tensor_with_parallelism_into("k", memory.at, 1000, whole) is None
        first = target("shard", par(tp(0, 4, 0)))
        assert same(store.get_tensor_with_parallelism("k", first), array[:1])
        assert memory.untouched


def test_parts_that_are_not_cut(shelf: Any) -> None:
    array = np.arange(6, dtype=np.float32)
    store, memory = shelf(), Memory()
    assert store.put_tensor_with_parallelism("k", array, par(*others())) == 0
    wanted = target("shard", par(*reversed(others())))
    assert same(store.get_tensor_with_parallelism("k", wanted), array)
    assert same(store.get_tensor_with_parallelism_into("k", memory.at, 400, wanted), array)
    for nothing in ["full", "as_stored"]:
        assert store.get_tensor_with_parallelism("k", target(nothing, par(*others()))) is None
    assert store.get_tensor_with_parallelism("k", target("shard", par(others()[0]))) is None
    assert store.get_tensor_with_parallelism_into("k", memory.at, 400, target("shard")) is None


def test_upserts_replace_parts_and_what_names_them(shelf: Any) -> None:
    store, memory = shelf(), Memory()
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    write(store, "parts", array, 2, 0)
    for rank, part in enumerate(np.split(array + 1, 3, axis=1)):
        assert store.upsert_tensor_with_parallelism("k", part, par(tp(rank, 3, 1))) == 0
    assert same(store.get_tensor_with_parallelism("k", target("full")), array + 1)
    held = load(memory, array + 2)
    assert store.upsert_tensor_with_parallelism_from("k", memory.at, held, par(tp(0, 2, 1))) == 0
    assert same(store.get_tensor_with_parallelism("k", target("full")), array + 2)


def test_batches(shelf: Any) -> None:
    store, memory = shelf(), Memory()
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    halves, keys = par(tp(0, 2, 0)), ["a", "b", "c"]
    put = store.batch_put_tensor_with_parallelism
    assert put(keys, [array, "x", array], [halves, None, None]) == [0, REFUSED, 0]
    writers = [None, SimpleNamespace(rank=1, size=2, split_dim=1), SimpleNamespace(rank=0)]
    assert put(["d", "e", "f"], [array] * 3, None, writer_partitions=writers) == [0, 0, REFUSED]
    assert sorted(store.objects) == [
        *["a__parallelism_manifest", "a_tp_0", "c", "d"],
        *["e__writer_1of2_sd1", "e__writer_manifest"],
    ]
    before = dict(store.objects)
    for wrong in [(halves,), ([halves],), ([None] * 3, writers)]:
        columns = dict(zip(("parallelisms", "writer_partitions"), wrong, strict=False))
        assert put(["x", "y", "z"], [array] * 3, **columns) == [REFUSED] * 3
    assert store.objects == before

    held = load(memory, array)
    places = [memory.at] * 2, [held, held - 1]
    put_from = store.batch_put_tensor_with_parallelism_from
    assert put_from(["g", "h"], *places, [halves] * 2) == [0, REFUSED]
    assert store.batch_upsert_tensor_with_parallelism(["c"], [array + 1]) == [0]
    upsert_from = store.batch_upsert_tensor_with_parallelism_from
    assert upsert_from(["d"], [memory.at], [held], [halves]) == [0]

    get = store.batch_get_tensor_with_parallelism
    wanted = [target("shard", halves), None, target("shard", halves), "full"]
    found = get(["a", "c", "g", "g"], wanted)
    assert [
        same(each, part) for each, part in zip(found, [array, array + 1, array[:2]], strict=False)
    ] == [True] * 3
    assert found[3] is None
    assert get(["a", "c"], [None]) == [None] * 2
    into = store.batch_get_tensor_with_parallelism_into
    found = into(
        ["d", "?"], [memory.at, memory.at + 1000], [held] * 2, [target("full", halves)] * 2
    )
    assert same(found[0], array)
    assert found[1] is None
