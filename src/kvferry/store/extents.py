"""The free space of one pool."""

from __future__ import annotations

from array import array
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOWHERE", "Extents", "rooms_of"]

UNIT = 64  # bytes; every offset and room is a multiple of it
STEP = 5  # 2**STEP rooms from one power of two to the next: at most 1/32 of a room is idle
NOWHERE = -1

Ints: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = "array[int]"

NONE = np.empty(0, np.int64)


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
        self._lists: dict[int, tuple[Numbers, Numbers]] = {}
        self._filled = 0  # bit c: the list of class c is not empty
        self._scattered = False  # something was given back since neighbours were joined
        if self.capacity:
            self.give(np.array([0]), np.array([self.capacity]))

    def rooms(self, sizes: Ints) -> Ints:
        """The rooms that objects of these sizes get; an empty one gets the smallest."""
        if _alike(sizes):
            return np.full(len(sizes), self._room(int(sizes[0])))
        rooms = rooms_of(sizes)
        return np.where(sizes <= self.capacity, np.minimum(rooms, self.capacity), rooms)

    def take(self, rooms: Ints) -> Ints:
        """An offset for each room, or NOWHERE; the largest are placed first."""
        if _alike(rooms):
            found = self._take(int(rooms[0]), len(rooms))
            return found if len(found) == len(rooms) else _padded(found, len(rooms))
        offsets = np.full(len(rooms), NOWHERE, np.int64)
        kinds, kind = np.unique(rooms, return_inverse=True)
        for number in range(len(kinds) - 1, -1, -1):
            wanted = np.flatnonzero(kind == number)
            offsets[wanted] = _padded(self._take(int(kinds[number]), len(wanted)), len(wanted))
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

    def _room(self, size: int) -> int:
        room = room_of(size)
        return min(room, self.capacity) if size <= self.capacity else room

    def _take(self, room: int, count: int) -> Ints:
        """Up to `count` rooms of one size."""
        found = self._pick(room, count)
        if len(found) < count and self._scattered and self.free >= room:
            self._join()
            found = np.concatenate((found, self._pick(room, count - len(found))))
        self.free -= room * len(found)
        return found

    def _pick(self, room: int, count: int) -> Ints:
        own = _class_of(room)
        picked = [self._whole(own, room, count)] if self._filled >> own & 1 else [NONE]
        count -= len(picked[0])
        while count and (larger := self._filled >> own + 1):
            at = own + (larger & -larger).bit_length()
            picked.append(self._carve(at, room, count))
            count -= len(picked[-1])
        return np.concatenate(picked) if len(picked) > 1 else picked[0]

    def _whole(self, at: int, room: int, count: int) -> Ints:
        """Holes of the room's own class, their ends left over."""
        listed, rooms = self._pop(at, count)
        starts, sizes = _ints(listed), _ints(rooms)
        if rooms.count(room) == len(rooms):
            return starts
        fits = sizes >= room  # not all, where the room is cut at the end of the pool
        self._file(starts[~fits], sizes[~fits])
        starts, sizes = starts[fits], sizes[fits]
        self._file((starts + room)[sizes > room], (sizes - room)[sizes > room])
        return starts

    def _carve(self, at: int, room: int, count: int) -> Ints:
        """One hole of a larger class, cut into as many rooms as it has and are wanted."""
        (start,), (size,) = self._pop(at, 1)
        pieces = min(size // room, count)
        used = pieces * room
        if size > used:
            self._file(np.array([start + used]), np.array([size - used]))
        return np.arange(start, start + used, room)

    def _pop(self, at: int, count: int) -> tuple[Numbers, Numbers]:
        starts, sizes = self._lists[at]
        out = starts[-count:], sizes[-count:]
        del starts[-count:], sizes[-count:]
        if not starts:
            del self._lists[at]
            self._filled ^= 1 << at
        return out

    def _file(self, starts: Ints, sizes: Ints) -> None:
        if _alike(sizes):
            self._list(_class_of(int(sizes[0])), starts, sizes)
            return
        classes = _floor_class(sizes)
        for at in set(classes.tolist()):
            members = classes == at
            self._list(at, starts[members], sizes[members])

    def _list(self, at: int, starts: Ints, sizes: Ints) -> None:
        if at not in self._lists:
            self._lists[at] = array("q"), array("q")
            self._filled |= 1 << at
        listed, rooms = self._lists[at]
        listed.frombytes(starts.tobytes())
        rooms.frombytes(sizes.tobytes())

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
        starts = np.concatenate([_ints(listed) for listed, _ in lists])
        return starts, np.concatenate([_ints(rooms) for _, rooms in lists])


def rooms_of(sizes: Ints) -> Ints:
    """Bytes of the smallest classes that hold these sizes."""
    units = np.maximum(-(-sizes // UNIT), 1)
    shift = _shift(units)
    return (-(-units >> shift) << shift) * UNIT


def room_of(size: int) -> int:
    """The same of one."""
    units = max(-(-size // UNIT), 1)
    shift = _shift_of(units)
    return (-(-units >> shift) << shift) * UNIT


def _alike(sizes: Ints) -> bool:
    """Are these some, and of one size?"""
    return len(sizes) == 1 or (len(sizes) > 1 and bool((sizes == sizes[0]).all()))


def _ints(numbers: Numbers) -> Ints:
    """The same memory; the numbers cannot become fewer or more as long as it is used."""
    return np.frombuffer(numbers, np.int64)


def _padded(found: Ints, count: int) -> Ints:
    return np.append(found, np.full(count - len(found), NOWHERE))


def _class_of(size: int) -> int:
    units = size // UNIT
    shift = _shift_of(units)
    return (shift << STEP) + (units >> shift)


def _shift_of(units: int) -> int:
    return max(units.bit_length() - 1 - STEP, 0)


def _floor_class(sizes: Ints) -> Ints:
    units = sizes // UNIT
    shift = _shift(units)
    return (shift << STEP) + (units >> shift)


def _shift(units: Ints) -> Ints:
    """How many low bits the class of a size ignores."""
    bits = np.frexp(units.astype(np.float64))[1].astype(np.int64)
    return np.maximum(bits - 1 - STEP, 0)
