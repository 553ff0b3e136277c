"""The five verbs of the native index and of its twin, against a plain dict and each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import _core
from kvferry.store.dict_index import DictIndex
from tests._core.tables import EPOCH, Memory, digests, put, slots, words

FULL, NOWHERE, PRESENT = _core.FULL, _core.NOWHERE, _core.PRESENT

HALF = 1 << 63
# Of two buckets: digests of which both halves name the first, or one each.
BOTH_FIRST = [(low, low) for low in range(1, 20)]
ONE_EACH = [(low, HALF + low) for low in range(1, 20)]


class Native:
    """Keeps the memory of an index."""

    def __init__(self, capacity: int) -> None:
        self.memory = Memory.make(capacity)
        self.index = self.memory.node()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.index, name)


@pytest.fixture(params=[Native, DictIndex])
def make(request: pytest.FixtureRequest) -> Callable[[int], Any]:
    kind: Callable[[int], Any] = request.param
    return kind


def test_an_object_comes_and_goes(make: Callable[[int], Any]) -> None:
    index = make(64)
    two = digests("a", "b")
    found = index.insert(two, words(7, 8), words(0, 64), words(10, 20), words(64, 64), words(1, 2))
    assert index.find(two).tolist() == found.tolist()
    assert index.find(digests("c", "b")).tolist() == [NOWHERE, found[1]]
    rows = index.read(np.append(found, [-1, index.capacity]))
    assert rows["generation"].tolist() == [7, 8, 0, 0]
    assert rows["digest"][:2].tolist() == two.tolist()
    assert rows["length"].tolist() == [10, 20, 0, 0]
    assert rows["attrs"].tolist() == [1, 2, 0, 0]
    assert index.mark(found, words(7, 9)).tolist() == [True, False]
    assert index.find(two).tolist() == [NOWHERE, found[1]]
    assert index.read(found)["marked"].tolist() == [True, False]
    assert index.remove(found, words(7, 8)).tolist() == [True, False]
    assert index.scan(0, index.capacity)["slot"].tolist() == [found[1]]
    assert index.count == 1


def test_stale_names_are_refused(make: Callable[[int], Any]) -> None:
    index = make(64)
    (slot,) = put(index, digests("a"), 1)
    wrong = slots(slot, slot, -1, index.capacity, 1 << 40), words(2, 0, 1, 1, 1)
    assert not index.mark(*wrong).any()
    assert not index.remove(*wrong).any()
    assert not index.remove(slots(slot), words(1)).any()  # not marked yet
    assert index.mark(slots(slot, slot), words(1, 1)).tolist() == [True, False]
    assert index.remove(slots(slot, slot), words(1, 1)).tolist() == [True, False]
    assert put(index, digests("a"), 2) == [slot]
    assert not index.mark(slots(slot), words(1)).any()


def test_present_once(make: Callable[[int], Any]) -> None:
    index = make(64)
    twice = digests("a", "a")
    (slot, code) = put(index, twice, 1)
    assert code == PRESENT
    assert put(index, twice[:1], 3) == [PRESENT]
    index.mark(slots(slot), words(1))
    (other,) = put(index, twice[:1], 4)  # beside the one that leaves
    assert other >= 0
    assert index.find(twice[:1]).tolist() == [other]
    assert index.count == 2


@pytest.mark.parametrize(("crowd", "fit"), [(BOTH_FIRST, 8), (ONE_EACH, 16)])
def test_full_buckets(make: Callable[[int], Any], crowd: list[tuple[int, int]], fit: int) -> None:
    index = make(1)
    assert index.capacity == 16
    names = np.array(crowd, np.uint64)
    found = put(index, names, 1)
    assert sorted(found[:fit]) == list(range(fit))
    assert set(found[fit:]) == {FULL}
    assert set(index.rivals(names[-1:])[0].tolist()) == set(range(fit))
    assert index.find(names).tolist() == found[:fit] + [NOWHERE] * (len(crowd) - fit)
    index.mark(slots(found[3]), words(4))
    assert put(index, names[-1:], 100) == [FULL]
    index.remove(slots(found[3]), words(4))
    assert put(index, names[-1:], 101) == [found[3]]


def test_the_emptier_bucket_takes_it(make: Callable[[int], Any]) -> None:
    found = put(make(1), np.array(ONE_EACH[:6], np.uint64), 1)
    assert sorted(slot // 8 for slot in found) == [0, 0, 0, 1, 1, 1]


def test_what_is_no_generation(make: Callable[[int], Any]) -> None:
    index = make(64)
    for wrong in (0, 1 << 63):
        with pytest.raises(ValueError, match="generation"):
            put(index, digests("a", "b"), wrong - 1 if wrong else 0)
    assert index.count == 0


def test_empty_batches(make: Callable[[int], Any]) -> None:
    index = make(64)
    none = digests()
    assert put(index, none, 1) == index.find(none).tolist() == []
    assert index.rivals(none).shape == (0, 16)
    assert len(index.mark(slots(), words())) == len(index.read(slots())) == 0
    assert len(index.scan(0, 0)) == len(index.scan(index.capacity + 1, 5)) == 0


def columns(entries: np.ndarray) -> list[Any]:
    assert entries.dtype == _core.ENTRY
    return [entries[name].tolist() for name in _core.ENTRY.names or ()]


STEP = st.tuples(
    st.sampled_from(["insert", "mark", "remove"]), st.lists(st.integers(0, 29), max_size=12)
)


@settings(deadline=None)
@given(st.lists(STEP, max_size=25))
def test_all_agree(steps: list[tuple[str, list[int]]]) -> None:
    """Native, twin and a plain dict of what stands; few buckets, so that some are full."""
    names = digests(*map(str, range(30)))
    native, twin = Native(16), DictIndex(16)
    plain: dict[int, int] = {}
    newest = np.zeros(30, np.uint64)
    where = np.full(30, NOWHERE, np.int64)
    generation = 1
    for verb, keys in steps:
        if verb == "insert":
            found = put(native, names[keys], generation)
            assert found == put(twin, names[keys], generation)
            for at, (key, slot) in enumerate(zip(keys, found, strict=True)):
                assert (slot == PRESENT) == (key in plain)
                if slot >= 0:
                    plain[key] = slot
                    newest[key], where[key] = generation + at, slot
            generation += len(keys)
        else:
            mine, theirs = (
                getattr(index, verb)(where[keys], newest[keys]) for index in (native, twin)
            )
            assert mine.tolist() == theirs.tolist()
            for key in keys if verb == "mark" else []:
                plain.pop(key, None)
        assert native.find(names).tolist() == [plain.get(key, NOWHERE) for key in range(30)]
        assert native.count == twin.count
        for part in ((0, 99), (3, 7)):
            assert columns(native.scan(*part)) == columns(twin.scan(*part))


def test_most_of_the_capacity_is_of_use() -> None:
    index = Native(10_000)
    names = digests(*map(str, range(index.capacity * 3 // 4)))
    found = np.array(put(index, names, 1))
    assert (found == FULL).mean() < 0.001
    assert (index.find(names)[found >= 0] == found[found >= 0]).all()


def test_sizes() -> None:
    assert _core.index_bytes(1_000_000) / 1_000_000 < 70
    with pytest.raises(ValueError, match="at most"):
        _core.index_bytes((1 << 32) + 1)
    memory = Memory.make(1)
    for address, length in ((8, 1 << 16), (0, 4096)):
        with pytest.raises(ValueError, match="cache line"):
            _core.Index(memory.index.ctypes.data + address, length, EPOCH)
    with pytest.raises(ValueError, match="one length"):
        memory.node().mark(slots(1), words(1, 2))
    with pytest.raises(ValueError, match="rows of two"):
        memory.node().find(np.zeros((3, 3), np.uint64))
