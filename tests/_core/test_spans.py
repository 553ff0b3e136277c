"""Memory by address: what lies in a range that somebody registered, and what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import _core

MOST = (1 << 64) - 1


def test_a_window_is_the_memory_itself() -> None:
    memory, spans = np.zeros(64, np.uint8), _core.Spans()
    address = memory.ctypes.data
    spans.add(address, 64)
    window = memoryview(spans.window(address + 8, 4))
    assert (window.nbytes, window.readonly) == (4, False)
    window[:] = b"abcd"
    assert memory[7:13].tobytes() == b"\0abcd\0"
    assert memoryview(spans.window(address + 64, 0)).nbytes == 0
    assert len(spans) == 1


def test_rows_of_numbers_or_of_lists() -> None:
    spans = _core.Spans()
    spans.add(1000, 100)
    mixed: list[Any] = [1000, np.int64(1050)]
    starts, addresses, lengths = spans.pieces(mixed, (4, 50))
    assert [each.tolist() for each in (starts, addresses, lengths)] == [
        [0, 1, 2],
        [1000, 1050],
        [4, 50],
    ]
    rows: list[Any] = [[1000, 1001], (), np.array([1099], np.uint64)]
    starts, addresses, lengths = spans.pieces(rows, [[1, 2], [], [1]])
    assert starts.tolist() == [0, 2, 2, 3]
    assert addresses.tolist() == [1000, 1001, 1099]
    assert lengths.tolist() == [1, 2, 1]
    assert {each.dtype for each in (starts, addresses, lengths)} == {np.dtype("u8")}
    assert spans.pieces([], [])[0].tolist() == [0]


@pytest.mark.parametrize(
    ("addresses", "lengths", "row"),
    [
        ([1000, 999], [1, 1], 1),
        ([[1000], [], [1000, 1099]], [[100], [], [1, 2]], 2),
        ([1100], [1], 0),
        ([MOST], [MOST], 0),
        ([1000], [MOST], 0),
        ([[0]], [[0]], 0),
    ],
)
def test_the_row_of_what_lies_in_no_range_is_told(
    addresses: list[Any], lengths: list[Any], row: int
) -> None:
    spans = _core.Spans()
    spans.add(1000, 100)
    with pytest.raises(LookupError, match=f"row {row}") as caught:
        spans.pieces(addresses, lengths)
    assert isinstance(caught.value, _core.Stray)
    assert caught.value.row == row


@pytest.mark.parametrize(
    ("addresses", "lengths", "error"),
    [
        ([1], [1, 2], ValueError),
        ([[1], [1]], [[1], [1, 1]], ValueError),
        ([[1], [1]], [[1, 1], []], ValueError),
        ([-1], [1], ValueError),
        ([1], [1 << 64], ValueError),
        (["1"], [1], TypeError),
        ([1.0], [1], TypeError),
        ([[None]], [[1]], TypeError),
        ([[[1]]], [[[1]]], TypeError),
        (5, [1], TypeError),
    ],
)
def test_what_is_no_row_of_numbers(addresses: Any, lengths: Any, error: type[Exception]) -> None:
    spans = _core.Spans()
    spans.add(0, 1000)
    with pytest.raises(error):
        spans.pieces(addresses, lengths)


def test_what_is_no_range() -> None:
    spans = _core.Spans()
    for address, length in ((5, 0), (MOST, 2), (-1, 5), (5, -1), (1 << 64, 1)):
        with pytest.raises(ValueError, match=r"range|address"):
            spans.add(address, length)
        with pytest.raises((ValueError, LookupError)):
            spans.window(address, length)
    for wrong in ("5", 5.0, None):
        with pytest.raises(TypeError):
            spans.add(wrong, 5)  # type: ignore[arg-type]
    with pytest.raises(LookupError):
        spans.drop(5)
    assert len(spans) == 0


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=12)


@settings(deadline=None)
@given(RANGES, st.lists(st.integers(0, 60), max_size=8))
def test_ranges_may_overlap_and_be_the_same(ranges: list[tuple[int, int]], ends: list[int]) -> None:
    spans, held = _core.Spans(), list(ranges)
    for each in ranges:
        spans.add(*each)
    for address in ends:
        begun = [each for each in held if each[0] == address]
        if begun:
            spans.drop(address)
            del held[len(held) - 1 - held[::-1].index(begun[-1])]
    for address in range(0, 95, 3):
        for length in (0, 1, 7, 30):
            fits = any(b <= address and address + length <= b + n for b, n in held)
            try:
                spans.window(address, length)
            except LookupError:
                assert not fits
            else:
                assert fits
