"""Least frequently used leaves first, for comparison; no node has it."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ..store.policies import Held, Policy, Slots

__all__ = ["Lfu"]

MOST_STALE = 8  # entries of the heap for each that counts, before it is made anew


class Lfu(Policy):
    """Of those used equally often the one that came first leaves. Who leaves is forgotten.

    A heap of (uses, arrival, slot); an entry is of value while the slot's uses and arrival are
    these.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self._state: dict[int, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, int]] = []
        self._arrivals = 0
        self._once = 0  # members that were used once

    @property
    def once(self) -> int:
        """How many are there that were not used since they came."""
        return self._once

    def touch(self, slots: Slots) -> None:
        for slot in slots.tolist():
            if slot in self._state:
                uses, arrival = self._state[slot]
                self._once -= uses == 1
                self._state[slot] = uses + 1, arrival
                heappush(self._heap, (uses + 1, arrival, slot))
        if len(self._heap) > MOST_STALE * (self.count + MOST_STALE):
            self._heap = [(*state, slot) for slot, state in self._state.items()]
            heapify(self._heap)

    def members(self) -> Slots:
        return np.array(list(self._state), np.int64)

    def first(self, slots: Slots) -> Slots:
        there = [slot for slot in slots.tolist() if slot in self._state]
        return np.array(sorted(there, key=self._state.__getitem__)[:1], np.int64)

    def _insert(self, slots: Slots, prints: NDArray[np.uint64], parents: Slots) -> None:
        for slot in slots.tolist():
            self._arrivals += 1
            self._state[slot] = 1, self._arrivals
            heappush(self._heap, (1, self._arrivals, slot))
        self._once += len(slots)

    def _remove(self, slots: Slots) -> None:
        for slot in slots.tolist():
            self._once -= self._state.pop(slot)[0] == 1

    def _victims(self, needed: int, held: Held) -> Slots:
        out, kept = [np.empty(0, np.int64)], np.empty(0, np.int64)
        while needed > 0 and len(slots := self._pop(needed)):
            stays = held(slots)
            out.append(slots[~stays])
            kept = np.concatenate((kept, slots[stays]))
            needed -= int(self.sizes[slots[~stays]].sum())
        for slot in kept.tolist():
            heappush(self._heap, (*self._state[slot], slot))
        gone = np.concatenate(out)
        self._remove(gone)
        return gone

    def _pop(self, needed: int) -> Slots:
        """The next of `needed` bytes leave the heap."""
        found: list[int] = []
        while needed > 0 and self._heap:
            uses, arrival, slot = heappop(self._heap)
            if self._state.get(slot) == (uses, arrival):
                found.append(slot)
                needed -= int(self.sizes[slot])
        return np.array(found, np.int64)
