"""The free space of one pool."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOWHERE", "Extents", "rooms_of"]

UNIT = 64  # bytes; every offset and room is a multiple of it
STEP = 5  # 2**STEP rooms from one power of two to the next: at most 1/32 of a room is idle
NOWHERE = -1

Ints = NDArray[np.int64]


class Extents:
    """Which bytes of a pool are free; what is taken is the caller's to remember.

    Rooms are rounded up to classes, so that what left fits what comes. Holes lie in a list per
    class, each hole in the largest class it can serve. What is given back is filed as it was;
    neighbours become one hole when a room is wanted that no list has. 16 bytes a hole.

        class   0 .. 63, 64, 65 ..   of rooms of   0 .. 63, 64, 66 .. 126, 128, 132 ..  units
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity - capacity % UNIT
        self.free = 0
        self._lists: dict[int, tuple[array[int], array[int]]] = {}
        self._filled = 0  # bit c: the list of class c is not empty
        self._scattered = False  # something was given back since neighbours were joined
        if self.capacity:
            self.give(np.array([0]), np.array([self.capacity]))

    def rooms(self, sizes: Ints) -> Ints:
        """The rooms that objects of these sizes get; an empty one gets the smallest."""
        rooms = rooms_of(sizes)
        return np.where(sizes <= self.capacity, np.minimum(rooms, self.capacity), rooms)

    def take(self, rooms: Ints) -> Ints:
        """An offset for each room, or NOWHERE; the largest are placed first."""
        offsets = np.full(len(rooms), NOWHERE, np.int64)
        kinds, kind = np.unique(rooms, return_inverse=True)
        for number in range(len(kinds) - 1, -1, -1):
            wanted = np.flatnonzero(kind == number)
            found = self._take(int(kinds[number]), len(wanted))
            offsets[wanted[: len(found)]] = found
        return offsets

    def give(self, offsets: Ints, rooms: Ints) -> None:
        """These ranges are free again."""
        if not len(rooms):
            return
        self.free += int(rooms.sum())
        self._scattered = True
        self._file(offsets, rooms)

    @property
    def largest(self) -> int:
        """Bytes of the largest hole."""
        return int(self.holes()[1].max(initial=0))

    def holes(self) -> tuple[Ints, Ints]:
        """Starts and sizes of all holes, in order, no two of them neighbours."""
        self._join()
        starts, sizes = self._all()
        order = np.argsort(starts)
        return starts[order], sizes[order]

    def _take(self, room: int, count: int) -> Ints:
        """Up to `count` rooms of one size."""
        found = self._pick(room, count)
        if len(found) < count and self._scattered and self.free >= room:
            self._join()
            found = np.concatenate((found, self._pick(room, count - len(found))))
        self.free -= room * len(found)
        return found

    def _pick(self, room: int, count: int) -> Ints:
        own = int(_floor_class(np.array([room]))[0])
        picked = [self._whole(own, room, count)]
        count -= len(picked[0])
        while count and (larger := self._filled >> own + 1):
            at = own + (larger & -larger).bit_length()
            picked.append(self._carve(at, room, count))
            count -= len(picked[-1])
        return np.concatenate(picked)

    def _whole(self, at: int, room: int, count: int) -> Ints:
        """Holes of the room's own class, their ends left over."""
        if not self._filled >> at & 1:
            return np.empty(0, np.int64)
        starts, sizes = self._pop(at, count)
        fits = sizes >= room  # not all, where the room is cut at the end of the pool
        self._file(starts[~fits], sizes[~fits])
        starts, sizes = starts[fits], sizes[fits]
        self._file((starts + room)[sizes > room], (sizes - room)[sizes > room])
        return starts

    def _carve(self, at: int, room: int, count: int) -> Ints:
        """One hole of a larger class, cut into as many rooms as it has and are wanted."""
        starts, sizes = self._pop(at, 1)
        pieces = min(int(sizes[0]) // room, count)
        used = pieces * room
        if sizes[0] > used:
            self._file(starts + used, sizes - used)
        return starts + np.arange(pieces) * room

    def _pop(self, at: int, count: int) -> tuple[Ints, Ints]:
        starts, sizes = self._lists[at]
        out = np.array(starts[-count:], np.int64), np.array(sizes[-count:], np.int64)
        del starts[-count:], sizes[-count:]
        if not starts:
            del self._lists[at]
            self._filled ^= 1 << at
        return out

    def _file(self, starts: Ints, sizes: Ints) -> None:
        classes = _floor_class(sizes)
        for at in set(classes.tolist()):
            members = classes == at
            if at not in self._lists:
                self._lists[at] = array("q"), array("q")
                self._filled |= 1 << at
            listed, rooms = self._lists[at]
            listed.frombytes(starts[members].tobytes())
            rooms.frombytes(sizes[members].tobytes())

    def _join(self) -> None:
        """Neighbours become one hole."""
        if not self._scattered:
            return
        self._scattered = False
        starts, sizes = self._all()
        order = np.argsort(starts)
        starts, sizes = starts[order], sizes[order]
        first = np.flatnonzero(np.append(True, starts[1:] != starts[:-1] + sizes[:-1]))
        self._lists.clear()
        self._filled = 0
        if len(starts):
            self._file(starts[first], np.add.reduceat(sizes, first))

    def _all(self) -> tuple[Ints, Ints]:
        lists = list(self._lists.values()) or [(array("q"), array("q"))]
        starts = np.concatenate([np.array(listed, np.int64) for listed, _ in lists])
        return starts, np.concatenate([np.array(rooms, np.int64) for _, rooms in lists])


def rooms_of(sizes: Ints) -> Ints:
    """Bytes of the smallest classes that hold these sizes."""
    units = np.maximum(-(-sizes // UNIT), 1)
    shift = _shift(units)
    return (-(-units >> shift) << shift) * UNIT


def _floor_class(sizes: Ints) -> Ints:
    units = sizes // UNIT
    shift = _shift(units)
    return (shift << STEP) + (units >> shift)


def _shift(units: Ints) -> Ints:
    """How many low bits the class of a size ignores."""
    bits = np.frexp(units.astype(np.float64))[1].astype(np.int64)
    return np.maximum(bits - 1 - STEP, 0)
