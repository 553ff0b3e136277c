"""Builders against loops over single descriptors, and what they refuse."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import _core
from kvferry.batch import Batch
from kvferry.errors import UsageError

FAR = 1 << 44  # where the peer's region lies, for its owner

Pieces = list[tuple[int, int, int]]


class Theirs:
    """A region of a peer, as far as a batch looks at it."""

    name = "kv"

    def __init__(self, length: int, base: int = FAR) -> None:
        self.span = _core.Span(base, length, base, True)


def pieces_of(batch: Batch) -> Pieces:
    return [batch.descriptors.row(index) for index in range(len(batch))]


def bounds(pieces: Pieces, side: int) -> tuple[int, int]:
    return min(p[side] for p in pieces), max(p[side] + p[2] for p in pieces)


def check(batch: Batch, wanted: Pieces) -> None:
    assert pieces_of(batch) == wanted
    assert batch.bytes == sum(length for _, _, length in wanted)
    assert batch.descriptors.bytes == batch.bytes
    if wanted:
        assert batch.descriptors.local == bounds(wanted, 0)
        assert batch.descriptors.remote == bounds(wanted, 1)
        assert batch.descriptors.longest == max(length for _, _, length in wanted)


# ---- blocks ----

DTYPES = st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, ">i4", list])


@given(st.data(), st.integers(1, 100), st.integers(1, 100), st.integers(1, 5000))
def test_blocks(data: st.DataObject, ours: int, theirs: int, block: int) -> None:
    memory = np.zeros(ours * block + data.draw(st.integers(0, block - 1)), np.uint8)
    count = data.draw(st.integers(0, 20))
    here = data.draw(st.lists(st.integers(0, ours - 1), min_size=count, max_size=count))
    there = data.draw(st.lists(st.integers(0, theirs - 1), min_size=count, max_size=count))
    dtype = data.draw(DTYPES)
    ids = here if dtype is list else np.array(here, dtype)
    batch = Batch.blocks(memory, ids, Theirs(theirs * block), there, block)
    base = memory.ctypes.data
    wanted = [(base + i * block, FAR + k * block, block) for i, k in zip(here, there, strict=True)]
    check(batch, wanted)


def test_blocks_of_one_id_and_of_strided_ids() -> None:
    memory, region = bytearray(400), Theirs(400)
    ids = np.arange(8)
    batch = Batch.blocks(memory, ids[::2], region, ids[::-2], 50)
    start = batch.descriptors.local[0]
    assert pieces_of(batch) == [
        (start + i * 50, FAR + k * 50, 50) for i, k in zip((0, 2, 4, 6), (7, 5, 3, 1), strict=True)
    ]
    assert pieces_of(Batch.blocks(memory, 2, region, 3, 50)) == [(start + 100, FAR + 150, 50)]


STRAYS = [
    [0, 4],
    [0, -1],
    [0, 1 << 62],
    [0, -(1 << 63)],
    [0, 1 << 63],
    [0, (1 << 64) - 1],
    np.array([0, 1 << 63], np.uint64),
    np.array([0, (1 << 64) - 1], np.uint64),
    np.array([0, -1], np.int8),
]


@pytest.mark.parametrize("ids", STRAYS, ids=str)
@pytest.mark.parametrize("side", ["local", "remote"])
def test_a_stray_id_is_named(ids: Any, side: str) -> None:
    memory, region = np.zeros(4 * 16, np.uint8), Theirs(4 * 16)
    good = [0, 1]
    arguments = (ids, good) if side == "local" else (good, ids)
    with pytest.raises(UsageError, match="outside") as caught:
        Batch.blocks(memory, arguments[0], region, arguments[1], 16)
    assert (caught.value.cause, caught.value.index) == ("out_of_bounds", 1)


@pytest.mark.parametrize("side", ["local", "remote"])
def test_the_range_of_a_stray_id_is_named(side: str) -> None:
    memory, region = np.zeros(64, np.uint8), Theirs(64)
    ids = ([0, 9], [1, 1]) if side == "local" else ([1, 1], [0, 9])
    with pytest.raises(UsageError) as caught:
        Batch.blocks(memory, ids[0], region, ids[1], 16)
    base = memory.ctypes.data if side == "local" else FAR
    assert caught.value.range == (base + 9 * 16, 16)


def test_a_block_that_does_not_fit_whole_is_outside() -> None:
    with pytest.raises(UsageError) as caught:
        Batch.blocks(bytearray(63), [3], Theirs(64), [3], 16)
    assert caught.value.index == 0
    with pytest.raises(UsageError) as caught:
        Batch.blocks(bytearray(63), [0], Theirs(64), [0], 1 << 70)
    assert caught.value.cause == "out_of_bounds"


NO_INTEGERS: list[Any] = [
    [0.0],
    np.array([1.5]),
    [True],
    np.array([True]),
    [1 << 64],
    ["0"],
    [None],
    None,
    [[0], [0, 1]],
    np.array([0], object),
    np.array(["2020"], "M8[D]"),
    [[0]],
    np.zeros((1, 1), np.int64),
    np.zeros((2, 0), np.int64),
]


@pytest.mark.parametrize("ids", NO_INTEGERS, ids=repr)
def test_ids_that_are_no_column_of_integers(ids: Any) -> None:
    for ours, theirs in ((ids, [0]), ([0], ids)):
        with pytest.raises(UsageError) as caught:
            Batch.blocks(bytearray(64), ours, Theirs(64), theirs, 16)
        assert caught.value.cause == "not_integers"


def test_unequal_lengths() -> None:
    with pytest.raises(UsageError, match="2 local ids and 1 remote") as caught:
        Batch.blocks(bytearray(64), [0, 1], Theirs(64), [0], 16)
    assert caught.value.cause == "unequal_lengths"


@pytest.mark.parametrize(
    ("block", "cause"),
    [(0, "zero_length"), (-1, "negative_length"), (1.5, "not_integers"), (None, "not_integers")],
)
def test_bad_blocks(block: Any, cause: str) -> None:
    with pytest.raises(UsageError) as caught:
        Batch.blocks(bytearray(64), [0], Theirs(64), [0], block)
    assert caught.value.cause == cause


def test_the_remote_side_is_a_region() -> None:
    """A buffer of ours has an address, too, which may mean something else to the peer."""
    for build in (
        lambda: Batch.blocks(bytearray(64), [0], bytearray(64), [0], 16),  # type: ignore[arg-type]
        lambda: Batch.of(bytearray(64), np.zeros(64)),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError, match="not a region") as caught:
            build()
        assert caught.value.cause == "not_registered"


def test_an_empty_batch() -> None:
    for batch in (
        Batch.blocks(bytearray(64), [], Theirs(64), [], 16),
        Batch.blocks(bytearray(64), np.zeros(0, np.int32), Theirs(64), np.zeros(0), 16),
        Batch.of(bytearray(64), Theirs(64), local_offset=[], length=[]),
        Batch.absolute([], [], []),
        Batch.strided(bytearray(64), Theirs(64), 8, [3, 0], [8, 8], [8, 8]),
    ):
        check(batch, [])
        assert len(batch) == batch.bytes == 0


# ---- of ----

COLUMN = st.one_of(st.integers(0, 60), st.lists(st.integers(0, 60), min_size=3, max_size=3))


@given(
    COLUMN,
    COLUMN,
    st.one_of(st.integers(1, 40), st.lists(st.integers(1, 40), min_size=3, max_size=3)),
)
def test_of(ours: Any, theirs: Any, lengths: Any) -> None:
    memory = np.zeros(100, np.uint8)
    batch = Batch.of(memory, Theirs(100), local_offset=ours, remote_offset=theirs, length=lengths)
    base = memory.ctypes.data
    columns = np.broadcast_arrays(*map(np.atleast_1d, (ours, theirs, lengths)))
    wanted = [(base + int(a), FAR + int(b), int(n)) for a, b, n in zip(*columns, strict=True)]
    check(batch, wanted)


def test_of_the_rest() -> None:
    memory = np.zeros(100, np.uint8)
    base = memory.ctypes.data
    check(Batch.of(memory, Theirs(100)), [(base, FAR, 100)])
    rest = Batch.of(memory, Theirs(100), local_offset=30, remote_offset=5)
    check(rest, [(base + 30, FAR + 5, 70)])
    with pytest.raises(UsageError, match="bytes 5 to 105 are outside region 'kv'") as caught:
        Batch.of(memory, Theirs(100), remote_offset=5)
    assert caught.value.range == (FAR + 5, 100)


@pytest.mark.parametrize(
    ("arguments", "cause", "index"),
    [
        ({"local_offset": -1, "length": 1}, "out_of_bounds", 0),
        ({"local_offset": -(1 << 63)}, "out_of_bounds", 0),
        ({"local_offset": [0, 100], "length": 1}, "out_of_bounds", 1),
        ({"remote_offset": [0, 7, 91], "length": 10}, "out_of_bounds", 2),
        ({"length": [10, 101]}, "out_of_bounds", 1),
        ({"length": [10, -1]}, "out_of_bounds", 1),
        ({"length": [10, -(1 << 63)]}, "out_of_bounds", 1),
        ({"length": np.array([10, 1 << 63], np.uint64)}, "out_of_bounds", 1),
        ({"local_offset": np.array([1 << 63], np.uint64), "length": 1}, "out_of_bounds", 0),
        ({"local_offset": (1 << 63) - 1, "length": (1 << 63) - 1}, "out_of_bounds", 0),
        ({"length": [10, 0]}, "zero_length", 1),
        ({"local_offset": 100}, "zero_length", 0),
        ({"length": 1.0}, "not_integers", None),
        ({"length": True}, "not_integers", None),
        ({"local_offset": 1.0}, "not_integers", None),
        ({"local_offset": 1 << 64, "length": 1}, "not_integers", None),
        ({"local_offset": [[0], [1]], "length": 1}, "not_integers", None),
        ({"local_offset": [1, 2, 3], "length": [1, 2]}, "unequal_lengths", None),
    ],
    ids=str,
)
def test_of_refuses(arguments: dict[str, Any], cause: str, index: int | None) -> None:
    with pytest.raises(UsageError) as caught:
        Batch.of(np.zeros(100, np.uint8), Theirs(100), **arguments)
    assert (caught.value.cause, caught.value.index) == (cause, index)


# ---- buffers ----


def test_buffers() -> None:
    memory = [np.zeros(size, np.uint8) for size in (10, 5, 300)]
    batch = Batch.buffers(memory, Theirs(1000), [900, 0, 50], [10, 3, 300])
    here = [each.ctypes.data for each in memory]
    wanted = [(here[0], FAR + 900, 10), (here[1], FAR, 3), (here[2], FAR + 50, 300)]
    check(batch, wanted)
    kept = [sys.getrefcount(each) for each in memory]
    del batch
    assert [sys.getrefcount(each) for each in memory] < kept


@pytest.mark.parametrize(
    ("offsets", "lengths", "cause", "index"),
    [
        ([0, 0], [10, 11], "out_of_bounds", 1),
        ([0, 91], [10, 10], "out_of_bounds", 1),
        ([-1, 0], [1, 1], "out_of_bounds", 0),
        ([0, 0], [10, 0], "zero_length", 1),
        ([0, 0, 0], [1, 1, 1], "unequal_lengths", None),
    ],
)
def test_buffers_refuses(
    offsets: list[int], lengths: list[int], cause: str, index: int | None
) -> None:
    with pytest.raises(UsageError) as caught:
        Batch.buffers([bytearray(10), bytearray(10)], Theirs(100), offsets, lengths)
    assert (caught.value.cause, caught.value.index) == (cause, index)


# ---- strided ----


@settings(deadline=None)
@given(st.data(), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_strided(data: st.DataObject, counts: list[int]) -> None:
    steps = st.lists(st.integers(-40, 40), min_size=len(counts), max_size=len(counts))
    ours, theirs = data.draw(steps), data.draw(steps)
    offset = 40 * 4 * len(counts)  # so that negative strides stay inside
    memory = np.zeros(2 * offset + 8, np.uint8)
    batch = Batch.strided(
        memory,
        Theirs(2 * offset + 8),
        8,
        counts,
        ours,
        theirs,
        local_offset=offset,
        remote_offset=offset,
    )
    base = memory.ctypes.data + offset
    wanted = [
        (
            base + sum(i * s for i, s in zip(point, ours, strict=True)),
            FAR + offset + sum(i * s for i, s in zip(point, theirs, strict=True)),
            8,
        )
        for point in itertools.product(*map(range, counts))
    ]
    check(batch, wanted)


def test_strided_in_one_dimension() -> None:
    memory = np.zeros(100, np.uint8)
    base = memory.ctypes.data
    wanted = [(base + 20 * k, FAR + 1 + 30 * k, 10) for k in range(3)]
    check(Batch.strided(memory, Theirs(100), 10, 3, 20, 30, remote_offset=1), wanted)


@pytest.mark.parametrize(
    ("counts", "ours", "theirs", "cause"),
    [
        ([2, 2], [8], [8, 8], "unequal_lengths"),
        ([2, 2], [8, 8], [8, 8, 8], "unequal_lengths"),
        (2, [8, 8], 8, "unequal_lengths"),
        ([-1], [8], [8], "bad_counts"),
        ([1.5], [8], [8], "not_integers"),
        ([2], [8.0], [8], "not_integers"),
        ([2], [True], [8], "not_integers"),
        ([[2]], [8], [8], "not_integers"),
        ([3], [50], [8], "out_of_bounds"),
        ([3], [8], [-1], "out_of_bounds"),
        # What wraps around would come to lie inside again.
        ([5], [1 << 62], [8], "out_of_bounds"),
        ([2, 2], [8, -(1 << 63)], [8, 8], "out_of_bounds"),
        ([3, 5], [8, 8], [8, 1 << 62], "out_of_bounds"),
    ],
)
def test_strided_refuses(counts: Any, ours: Any, theirs: Any, cause: str) -> None:
    with pytest.raises(UsageError) as caught:
        Batch.strided(np.zeros(100, np.uint8), Theirs(100), 8, counts, ours, theirs)
    assert caught.value.cause == cause


# ---- absolute ----

ADDRESS = st.integers(0, 1 << 47)


@given(st.lists(st.tuples(ADDRESS, ADDRESS, st.integers(1, 1 << 40)), max_size=10))
def test_absolute(pieces: Pieces) -> None:
    columns = list(zip(*pieces, strict=True)) or [(), (), ()]
    check(Batch.absolute(*map(list, columns)), pieces)
    check(Batch.absolute(*(np.array(column, np.uint64) for column in columns)), pieces)


def test_absolute_with_one_length_for_all() -> None:
    wanted = [(100, 5000, 8), (200, 4000, 8)]
    check(Batch.absolute([100, 200], [5000, 4000], 8), wanted)


@pytest.mark.parametrize(
    ("columns", "cause", "index"),
    [
        (([1], [1], [0]), "zero_length", 0),
        (([1, 1], [1, 1], [5, 0]), "zero_length", 1),
        (([1, -1], [1, 1], [5, 5]), "wraps", 1),
        (([1], np.array([(1 << 64) - 1], np.uint64), [1]), "wraps", 0),
        (([1, 1], [1, (1 << 64) - 1], [1, 1]), "wraps", 1),
        (([1, (1 << 64) - 1], [1, 1], [1, 1]), "wraps", 1),
        (([1, 1], [1, 1], [1 << 63, -1]), "wraps", 1),
        (([1], [1], [-1]), "wraps", 0),
        (([1.5], [1], [1]), "not_integers", None),
        (([1], [True], [1]), "not_integers", None),
        (([1], [1], ["1"]), "not_integers", None),
        (([1], [1 << 64], [1]), "not_integers", None),
        (([1, 2], [1, 2, 3], [1]), "unequal_lengths", None),
    ],
    ids=str,
)
def test_absolute_refuses(columns: Any, cause: str, index: int | None) -> None:
    with pytest.raises(UsageError) as caught:
        Batch.absolute(*columns)
    assert (caught.value.cause, caught.value.index) == (cause, index)


def test_more_bytes_than_there_are_addresses() -> None:
    half = 1 << 62
    with pytest.raises(UsageError) as caught:
        Batch.absolute([0, 0, 0, 0, 0], [0, 0, 0, 0, 0], half)
    assert (caught.value.cause, caught.value.index) == ("too_large", 3)


# ---- all ----


def test_a_batch_is_frozen() -> None:
    ids = np.arange(4)
    batch = Batch.blocks(bytearray(64), ids, Theirs(64), ids, 16)
    before = pieces_of(batch)
    ids[:] = 0
    assert pieces_of(batch) == before
    assert repr(batch) == "<Batch of 4 descriptors, 64 bytes>"


def steps(build: Callable[[], object]) -> int:
    """Lines of Python carried out; a loop over descriptors would show in any of its forms."""
    count = 0

    def trace(_frame: object, _event: str, _argument: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    gc.disable()  # what others left to be collected is not carried out here
    sys.settrace(trace)
    try:
        build()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


@pytest.mark.parametrize("kind", ["blocks", "of", "strided", "absolute"])
def test_python_does_not_look_at_every_descriptor(kind: str) -> None:
    block = 16

    def build(count: int) -> object:
        memory, region, ids = bytearray(count * block), Theirs(count * block), np.arange(count)
        if kind == "blocks":
            return Batch.blocks(memory, ids, region, ids, block)
        if kind == "of":
            at = ids * block
            return Batch.of(memory, region, local_offset=at, remote_offset=at, length=block)
        if kind == "strided":
            return Batch.strided(
                memory, region, block, [count // 4, 4], [4 * block, block], [4 * block, block]
            )
        return Batch.absolute(ids * block, ids * block, block)

    build(8)
    assert steps(lambda: build(4096)) == steps(lambda: build(8))
    few, many = build(8), build(4096)
    held = sys.getallocatedblocks()
    more = [build(4096) for _ in range(4)]
    assert sys.getallocatedblocks() - held < 4 * 40
    del few, many, more
