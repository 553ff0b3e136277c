"""Rows of pieces: what they are made of, and what is copied to and from them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import Pieces, _core
from kvferry.errors import RightsError, UsageError
from tests._core.tables import words

PIECES = st.lists(st.lists(st.binary(max_size=40), max_size=5), max_size=5)


@settings(deadline=None)
@given(PIECES)
def test_a_row_is_its_pieces_one_behind_the_other(rows: list[list[bytes]]) -> None:
    pieces = Pieces.of(rows)
    whole = [b"".join(row) for row in rows]
    assert len(pieces) == len(rows)
    assert pieces.sizes.tolist() == [len(each) for each in whole]
    room = np.full(250 * len(rows), 0xEE, np.uint8).reshape(len(rows), 250)
    bases = room.ctypes.data + np.arange(len(rows), dtype=np.uint64) * np.uint64(250)
    pieces.gather(bases, pieces.sizes)
    for got, value in zip(room, whole, strict=True):
        assert got.tobytes() == value + b"\xee" * (250 - len(value))


@settings(deadline=None)
@given(PIECES, st.data())
def test_some_rows(rows: list[list[bytes]], data: st.DataObject) -> None:
    which = np.array(
        data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else [], np.int64
    )
    some = Pieces.of(rows).some(which)
    again = Pieces.of([rows[at] for at in which.tolist()])
    assert some.starts.tolist() == again.starts.tolist()
    assert some.lengths.tolist() == again.lengths.tolist()
    assert some.offsets.tolist() == again.offsets.tolist()
    sizes, room = int(some.sizes.sum()), np.zeros(1000, np.uint8)
    ends = np.cumsum(some.sizes, dtype=np.uint64)
    some.gather(np.uint64(room.ctypes.data) + ends - some.sizes, some.sizes)
    assert room[:sizes].tobytes() == b"".join(b"".join(rows[at]) for at in which.tolist())


def test_a_row_may_be_one_buffer_of_any_kind() -> None:
    values: list[Any] = [b"ab", np.arange(3, dtype=np.float32), [memoryview(b"cd")[1:], b""], ()]
    pieces = Pieces.of(values)
    assert pieces.sizes.tolist() == [2, 12, 1, 0]
    assert pieces.readonly


def test_offsets_of_their_own() -> None:
    pieces, room = Pieces.of([[b"ab", b"c"], [b"de"]]), np.zeros(20, np.uint8)
    bases = words(room.ctypes.data, room.ctypes.data + 10)
    pieces.gather(bases, words(10, 10), words(7, 3, 8))
    assert room.tobytes() == b"\0\0\0c\0\0\0ab\0" + b"\0" * 8 + b"de"
    for offsets in (
        words(9, 3, 8),
        words(7, 3, 9),
        words(1 << 63, 0, 0),
        words((1 << 64) - 1, 0, 0),
    ):
        with pytest.raises(ValueError, match=r"row \d has a piece beyond"):
            pieces.gather(bases, words(10, 10), offsets)
    assert room.tobytes().count(0) == 15
    for wrong in (words(1, 2), words(1, 2, 3, 4)):
        with pytest.raises(ValueError, match="one length"):
            pieces.gather(bases, words(10, 10), wrong)
    with pytest.raises(ValueError, match="one length"):
        pieces.gather(bases[:1], words(10, 10))


WRONG: dict[str, tuple[Any, Any, Any]] = {
    "no rows at all": ([], [], []),
    "lengths": ([0, 1], [1, 2], [1]),
    "they begin later": ([1, 2], [1, 2], [1, 1]),
    "they end early": ([0, 1], [1, 2], [1, 1]),
    "they go back": ([0, 2, 1, 2], [1, 2], [1, 1]),
    "they end late": ([0, 3], [1, 2], [1, 1]),
    "negative": ([0, 1], [-1], [1]),
    "negative array": ([0, 1], np.array([-1]), [1]),
    "huge": ([0, 1], [1], [1 << 64]),
    "wraps": ([0, 1], [(1 << 64) - 2], [3]),
    "sum wraps": ([0, 2], [0, 0], [1 << 63, 1 << 63]),
    "floats": ([0, 1], [1.5], [1]),
    "array of floats": ([0, 1], np.array([1.5]), [1]),
    "two dimensions": ([0, 1], np.array([[1]]), [1]),
    "text": ([0, 1], ["1"], [1]),
    "nothing": (None, [1], [1]),
}


@pytest.mark.parametrize("columns", WRONG.values(), ids=WRONG)
def test_what_is_no_row_of_pieces(columns: tuple[Any, Any, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Pieces(*columns)
    assert caught.value.cause == "pieces"


def test_columns_are_copied() -> None:
    memory = np.arange(8, dtype=np.uint8)
    starts, addresses, lengths = words(0, 1), words(memory.ctypes.data), words(8)
    pieces = Pieces(starts, addresses, lengths, memory)
    starts[:], addresses[:], lengths[:] = 7, 7, 7
    out = np.zeros(8, np.uint8)
    pieces.gather(words(out.ctypes.data), words(8))
    assert (out == memory).all()
    assert not pieces.starts.flags.writeable


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        (5, "not_a_buffer"),
        ([b"a", None], "not_a_buffer"),
        ([np.arange(10)[::2]], "not_contiguous"),
        (np.array([object()]), "not_a_buffer"),
        ([["nested"]], "not_a_buffer"),
    ],
)
def test_what_is_no_buffer_is_told_with_its_row(row: Any, cause: str) -> None:
    with pytest.raises(UsageError) as caught:
        Pieces.of([b"good", row])
    assert (caught.value.index, caught.value.cause) == (1, cause)


def test_what_may_not_be_written() -> None:
    with pytest.raises(RightsError) as caught:
        Pieces.of([[bytearray(1)], [bytearray(1), b"2"]], writable=True)
    assert (caught.value.index, caught.value.cause) == (1, "read_only")
    assert not Pieces.of([[bytearray(1)]], writable=True).readonly


def test_buffers_are_kept_as_long_as_the_pieces_and_no_longer() -> None:
    memory = bytearray(8)
    pieces = Pieces.of([[memory]]).some(np.array([0]))
    with pytest.raises(BufferError):
        memory.append(1)
    del pieces
    memory.append(1)

    class Kept:
        pass

    kept = Kept()
    seen = weakref.ref(kept)
    pieces = Pieces([0], [], [], kept)
    del kept
    assert seen() is not None
    del pieces
    gc.collect()
    assert seen() is None


@settings(deadline=None)
@given(
    st.integers(0, 30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=12),
)
def test_what_was_written(size: int, written: list[tuple[int, int]]) -> None:
    cover, seen = _core.Cover(2), bytearray(size)
    for begin, length in written:
        begin = min(begin, size)
        length = min(length, size - begin)
        rows = Pieces([0, 1], [0], [length])
        cover.add(np.array([1]), rows, words(begin))
        seen[begin : begin + length] = b"1" * length
        assert cover.whole(np.array([1, 0]), words(size, 5)).tolist() == [0 not in seen, False]
    with pytest.raises(ValueError, match="slot"):
        cover.whole(np.array([2]), words(1))
