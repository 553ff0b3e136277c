"""Cutting descriptors at the ends of ranges, against what a loop finds."""

from __future__ import annotations

import numpy as np
import pytest
from hixl.ranges import Ranges, Stray
from hypothesis import given, settings
from hypothesis import strategies as st

TOP = 1 << 64


def looped(ranges: list[tuple[int, int]], pieces: list[tuple[int, int]]) -> object:
    """(source, skip, length) of every piece, or the position of the first that does not fit."""
    found = []
    for index, (address, length) in enumerate(pieces):
        done = 0
        while done < length:
            at = address + done
            holder = [(base, size) for base, size in ranges if base <= at < base + size]
            if not holder:
                return index
            base, size = holder[0]
            step = min(length - done, base + size - at)
            found.append((index, done, step))
            done += step
    return found


def cut(ranges: list[tuple[int, int]], pieces: list[tuple[int, int]]) -> object:
    addresses, lengths = (np.array(column, np.uint64) for column in zip(*pieces, strict=True))
    try:
        found = Ranges(ranges).cut(addresses, lengths)
    except Stray as stray:
        return stray.index
    if found is None:
        return [(index, 0, length) for index, (_, length) in enumerate(pieces)]
    return [tuple(map(int, row)) for row in zip(*found[:3], strict=True)]


@st.composite
def layouts(draw: st.DrawFn) -> list[tuple[int, int]]:
    at, found = draw(st.sampled_from([1, 1 << 47, TOP - 200])), []
    for _ in range(draw(st.integers(1, 6))):
        at += draw(st.sampled_from([0, 0, 1, 5]))
        size = draw(st.integers(1, 20))
        found.append((at, size))
        at += size
    return draw(st.permutations(found))


@settings(max_examples=60)
@given(layouts(), st.lists(st.tuples(st.integers(-2, 150), st.integers(1, 60)), min_size=1))
def test_as_a_loop_would(ranges: list[tuple[int, int]], offsets: list[tuple[int, int]]) -> None:
    base = min(start for start, _ in ranges)
    pieces = [(base + offset, length) for offset, length in offsets]
    pieces = [(max(at, 0), n) for at, n in pieces if at + n <= TOP]
    if not pieces:
        return
    expected, found = looped(ranges, pieces), cut(ranges, pieces)
    if isinstance(expected, list):
        assert found == expected
    else:
        assert isinstance(found, int)  # which of several it names depends on how it goes wrong
        assert isinstance(looped(ranges, [pieces[found]]), int)


def test_a_range_to_the_end_of_the_address_space() -> None:
    assert cut([(TOP - 4096, 4096)], [(TOP - 10, 10)]) == [(0, 0, 10)]


def test_without_ranges_everything_is_astray() -> None:
    with pytest.raises(Stray):
        Ranges([]).cut(np.array([1], np.uint64), np.array([1], np.uint64))
