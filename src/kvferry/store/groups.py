"""Objects that are of use only together."""

from __future__ import annotations

import numpy as np

from .table import Ints

__all__ = ["Groups"]


class Groups:
    """Sets of slots, each slot in one at most, and none of one slot alone.

    _group[slot]     number of its group, 0: it is alone; memory of others stays untouched
    _members[number] its slots, in order
    """

    def __init__(self, slots: int) -> None:
        self._group = np.zeros(slots, np.int64)
        self._members: dict[int, Ints] = {}
        self._last = 0

    def of(self, slots: Ints) -> Ints:
        """The number of each one's group, 0: it is alone."""
        numbers: Ints = self._group[slots]
        return numbers

    def grouped(self, slots: Ints) -> Ints:
        """Those of the slots that are not alone."""
        return slots[np.flatnonzero(self._group[slots])]

    def join(self, slots: Ints) -> None:
        """One group of these, and of all that were in a group with one of them."""
        members = self.members(slots)
        self.dissolve(slots)
        self._last += 1
        self._keep(self._last, members)

    def members(self, slots: Ints) -> Ints:
        """All that are in a group with one of these, and these; in order, each once."""
        whole = [self._members[number] for number in self._numbers(slots)]
        return np.unique(np.concatenate((slots, *whole)))

    def dissolve(self, slots: Ints) -> None:
        """The groups of these are no more."""
        for number in self._numbers(slots):
            self._group[self._members.pop(number)] = 0

    def leave(self, slots: Ints) -> None:
        """These leave; the others of each group stay together."""
        for number in self._numbers(slots):
            members = self._members.pop(number)
            self._group[members] = 0
            self._keep(number, np.setdiff1d(members, slots))

    def _keep(self, number: int, members: Ints) -> None:
        if len(members) > 1:
            self._members[number] = members
            self._group[members] = number

    def _numbers(self, slots: Ints) -> list[int]:
        numbers = self._group[slots]
        known: list[int] = np.unique(numbers[numbers.nonzero()]).tolist()
        return known
