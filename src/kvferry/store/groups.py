"""Objects that are of use only together."""

from __future__ import annotations

import numpy as np

from .table import Ints

__all__ = ["Groups"]


class Groups:
    """Rings of slots: every member names the next one.

    _link[slot] = slot ^ next   so that zero means alone, and untouched memory costs nothing
    """

    def __init__(self, slots: int) -> None:
        self._link = np.zeros(slots, np.uint32)

    def next(self, slots: Ints) -> Ints:
        following: Ints = slots ^ self._link[slots]
        return following

    def grouped(self, slots: Ints) -> Ints:
        """Those of the slots that are not alone."""
        return slots[np.flatnonzero(self._link[slots])]

    def join(self, slots: Ints) -> None:
        """One group of these, and of all that were in a group with one of them."""
        members = self.members(slots)
        self._link[members] = members ^ np.roll(members, -1)

    def members(self, slots: Ints) -> Ints:
        """All that are in a group with one of these, and these; in order, each once."""
        found = [slots]
        walk, start = self._step(slots, slots)
        while len(walk):
            found.append(walk)
            walk, start = self._step(walk, start)
        return np.unique(np.concatenate(found))

    def dissolve(self, slots: Ints) -> None:
        """Whole groups have left."""
        self._link[slots] = 0

    def leave(self, slots: Ints) -> None:
        """These leave; the others stay together. One by one: a ring is a linked list."""
        for slot in self.grouped(slots).tolist():
            rest = self.members(np.array([slot]))
            rest = rest[rest != slot]
            self._link[slot] = 0
            self._link[rest] = rest ^ np.roll(rest, -1)

    def _step(self, walk: Ints, start: Ints) -> tuple[Ints, Ints]:
        """The next member of each ring that has not come round."""
        walk = self.next(walk)
        going = walk != start
        return walk[going], start[going]
