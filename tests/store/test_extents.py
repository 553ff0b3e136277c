"""Free space against a map of bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry.store.extents import NOWHERE, UNIT, Extents, room_of, rooms_of

POOL = 300 * UNIT

batch = st.lists(st.integers(0, 40 * UNIT), min_size=1, max_size=8)


def ints(numbers: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), steps=st.lists(batch, max_size=25))
def test_no_byte_is_given_twice_and_none_is_lost(
    data: st.DataObject, steps: list[list[int]]
) -> None:
    extents, used = Extents(POOL), np.zeros(POOL, np.bool_)
    taken: list[tuple[int, int]] = []
    for sizes in steps:
        rooms = extents.rooms(ints(sizes))
        assert (rooms >= np.maximum(sizes, 1)).all()
        for offset, room in zip(extents.take(rooms).tolist(), rooms.tolist(), strict=True):
            if offset == NOWHERE:
                continue
            assert offset % UNIT == 0
            assert offset + room <= POOL
            assert not used[offset : offset + room].any()
            used[offset : offset + room] = True
            taken.append((offset, room))
        back = data.draw(st.sets(st.sampled_from(taken))) if taken else set()
        for offset, room in back:
            used[offset : offset + room] = False
            taken.remove((offset, room))
        extents.give(ints([o for o, _ in back]), ints([r for _, r in back]))
        starts, sizes_of = extents.holes()
        holes = np.zeros(POOL, np.bool_)
        for start, size in zip(starts.tolist(), sizes_of.tolist(), strict=True):
            holes[start : start + size] = True
        assert np.array_equal(holes, ~used)
        assert extents.free == int(holes.sum())
        assert (starts[1:] > (starts + sizes_of)[:-1]).all()
        assert extents.largest == max(sizes_of.tolist(), default=0)


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(0, 1 << 40), min_size=1))
def test_rooms_are_classes_with_little_idle(sizes: list[int]) -> None:
    rooms = rooms_of(ints(sizes))
    assert (rooms % UNIT == 0).all()
    assert (rooms >= sizes).all()
    assert (rooms - sizes <= np.maximum(rooms // 32, UNIT)).all()
    assert np.array_equal(rooms_of(rooms), rooms)
    assert list(map(room_of, sizes)) == rooms.tolist()


def test_a_room_that_fits_is_found_whatever_lies_scattered() -> None:
    extents = Extents(64 * UNIT)
    offsets = extents.take(ints([UNIT] * 64))
    extents.give(offsets, ints([UNIT] * 64))
    assert extents.take(ints([64 * UNIT])).tolist() == [0]


@pytest.mark.parametrize("units", [1, 33, 65, 67, 1000, 4097])
def test_an_object_as_large_as_the_pool_fits(units: int) -> None:
    extents = Extents(units * UNIT + 63)
    rooms = extents.rooms(ints([units * UNIT]))
    assert rooms.tolist() == [units * UNIT]
    assert extents.take(rooms).tolist() == [0]
    assert extents.free == extents.largest == 0
    extents.give(ints([0]), rooms)
    assert extents.take(extents.rooms(ints([0]))).tolist() == [0]


def test_the_best_hole_is_used() -> None:
    extents = Extents(100 * UNIT)
    offsets = extents.take(ints([10 * UNIT, UNIT, 4 * UNIT, UNIT]))
    extents.give(offsets[[0, 2]], ints([10 * UNIT, 4 * UNIT]))
    assert extents.take(ints([3 * UNIT])).tolist() == [int(offsets[2])]
    assert extents.take(ints([9 * UNIT])).tolist() == [int(offsets[0])]


def test_equal_rooms_are_placed_as_different_ones_are() -> None:
    """A batch of one size is told apart from others; nothing else of it is."""
    extents = Extents(10 * UNIT)
    assert extents.rooms(ints([UNIT, UNIT, 5])).tolist() == [UNIT] * 3
    assert extents.rooms(ints([11 * UNIT])).tolist() == rooms_of(ints([11 * UNIT])).tolist()
    assert extents.rooms(ints([])).tolist() == extents.take(ints([])).tolist() == []
    placed = extents.take(ints([3 * UNIT] * 4))
    assert sorted(placed.tolist()) == [NOWHERE, 0, 3 * UNIT, 6 * UNIT]
    assert placed[3] == NOWHERE
    assert extents.take(ints([4 * UNIT, UNIT, UNIT])).tolist() == [NOWHERE, 9 * UNIT, NOWHERE]
    extents.give(ints([3 * UNIT]), ints([3 * UNIT]))
    extents.give(ints([0, 6 * UNIT, 9 * UNIT]), ints([3 * UNIT, 3 * UNIT, UNIT]))
    assert (extents.largest, extents.free) == (10 * UNIT, 10 * UNIT)
