"""A line of slots: join at the back, leave at the front, or from anywhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .policy import Slots

__all__ = ["Queue"]

CHUNK = 256


class Queue:
    """Slots in a line, each at most once; every operation takes many and costs O(1) for each.

        _line   | gone ... | 7 | 3 | 9 | 7 | ...        |
                  0      _head                 _tail     _size
        _place    of a slot: its position in the line + 1; 0: it stands in none

    A slot that joins again leaves its former entry behind, which is dead because its place is
    another. A line that has no room at its back closes its gaps.
    """

    def __init__(self, slots: int) -> None:
        self._size = 2 * slots + CHUNK
        self._line = np.zeros(self._size, np.uint32)
        self._place = np.zeros(slots, np.uint32)
        self._head = 0
        self._tail = 0

    def push(self, slots: Slots) -> None:
        """Join at the back, or move there; of a slot that occurs twice the later one counts."""
        most = self._size // 2  # so many always fit beside all that may stand in line
        for start in range(0, len(slots), most):
            self._push(slots[start : start + most])

    def pop(self, turn: int = 0) -> Slots:
        """Some slots leave at the front, at a later turn more of them; none: the line is empty."""
        while self._head < self._tail:
            stop = min(self._head + (CHUNK << min(turn, 8)), self._tail)
            slots = self._alive(self._head, stop)
            self._head = stop
            if len(slots):
                self._place[slots] = 0
                return slots
        return np.empty(0, np.int64)

    def give_back(self, slots: Slots) -> None:
        """The last of those that were just popped stand at the front again."""
        self._head -= len(slots)
        stop = self._head + len(slots)
        self._line[self._head : stop] = slots
        self._place[slots] = np.arange(self._head + 1, stop + 1)

    def drop(self, slots: Slots) -> None:
        """Leave from wherever they stand."""
        self._place[slots] = 0

    def holds(self, slots: Slots) -> NDArray[np.bool_]:
        return np.not_equal(self._place[slots], 0)

    def first(self, slots: Slots) -> Slots:
        """The one of these that stands before the others; none, if none is in line."""
        slots = slots[self.holds(slots)]
        return slots[np.argsort(self._place[slots])[:1]]

    def members(self) -> Slots:
        """Everybody in line, front first."""
        return self._alive(self._head, self._tail)

    def _push(self, slots: Slots) -> None:
        if self._tail + len(slots) > self._size:
            self._close_gaps()
        stop = self._tail + len(slots)
        self._line[self._tail : stop] = slots
        self._place[slots] = np.arange(self._tail + 1, stop + 1)
        self._tail = stop

    def _alive(self, start: int, stop: int) -> Slots:
        slots: Slots = self._line[start:stop].astype(np.int64)
        return slots[np.flatnonzero(self._place[slots] == np.arange(start + 1, stop + 1))]

    def _close_gaps(self) -> None:
        slots = self.members()
        self._head, self._tail = 0, len(slots)
        self._line[: len(slots)] = slots
        self._place[slots] = np.arange(1, len(slots) + 1)
