"""Least recently used leaves first, but no parent before its children."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from .policy import Held, Policy, Slots
from .queue import Queue

__all__ = ["PrefixLru"]

PATH = 64  # ancestors that are asked about together


class PrefixLru(Policy):
    """Trees of slots, as prefixes of token sequences form them: of all leaves the oldest leaves.

    Everybody stands in one line by the last use. Who comes to its front and has children is parked,
    under a number that keeps the order; when its last child has left it is ready, and older than
    all in the line. Who is held, and met as a leaf, goes to the back.

    A parent that is removed leaves its children behind as roots. `_stay` counts the stays in a
    slot, by which a child knows its parent from a later tenant of the slot.

    Trees are linked by numbers, so who leaves is followed to its parent one by one.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self._queue = Queue(slots)
        self._parked = np.zeros(slots, np.uint32)  # 0: not parked
        self._numbers = 0
        self._children = np.zeros(slots, np.uint32)
        self._parent = np.zeros(slots, np.uint32)
        self._stay = np.zeros(slots, np.uint32)
        self._parent_stay = np.zeros(slots, np.uint32)  # of the parent at birth; 0: a root
        self._ready: list[tuple[int, int]] = []  # a heap of (number, slot), some of them outdated
        self._ahead: list[int] = []  # out of the line to be looked at, the next one last

    def touch(self, slots: Slots) -> None:
        slots = slots[self._queue.holds(slots) | (self._parked[slots] != 0)]
        self._parked[slots] = 0
        self._queue.push(slots)

    def first(self, slots: Slots) -> Slots:
        leaves = slots[~self.blocked(slots)]
        parked = leaves[np.flatnonzero(self._parked[leaves])]
        if not len(parked):
            return self._queue.first(leaves)
        return parked[np.argsort(self._parked[parked])[:1]]

    def members(self) -> Slots:
        return np.concatenate((np.flatnonzero(self._parked), self._queue.members()))

    def blocked(self, slots: Slots) -> NDArray[np.bool_]:
        blocked: NDArray[np.bool_] = self._children[slots] > 0
        return blocked

    def _insert(self, slots: Slots, prints: NDArray[np.uint64], parents: Slots) -> None:
        self._stay[slots] += 1
        self._children[slots] = 0
        self._parked[slots] = 0
        root = parents == slots
        self._parent[slots] = parents
        self._parent_stay[slots] = np.where(root, 0, self._stay[parents])
        np.add.at(self._children, parents[~root], 1)
        self._queue.push(slots)

    def _remove(self, slots: Slots) -> None:
        self._queue.drop(slots)
        self._parked[slots] = 0
        for slot in slots[self._parent_stay[slots] != 0].tolist():
            self._leave_parent(slot)

    def _victims(self, needed: int, held: Held) -> Slots:
        out: list[int] = []
        kept: list[int] = []
        stays: dict[int, bool] = {}
        sizes = memoryview(self.sizes)
        while needed > 0 and (slot := self._oldest_leaf(held, stays)) is not None:
            if stays[slot]:
                kept.append(slot)
            else:
                out.append(slot)
                needed -= sizes[slot]
                self._leave_parent(slot)
        self._queue.give_back(np.array(self._ahead[::-1], np.int64))
        self._ahead.clear()
        self._queue.push(np.array(kept, np.int64))
        return np.array(out, np.int64)

    def _oldest_leaf(self, held: Held, stays: dict[int, bool]) -> int | None:
        """It is no longer parked or in line; `stays` knows about it. None: there is no leaf."""
        while self._ready:
            number, slot = heappop(self._ready)
            if self._parked[slot] == number and not self._children[slot]:
                self._parked[slot] = 0
                if slot not in stays:
                    self._ask(self._path(slot), held, stays)
                return slot
        while self._ahead or self._look_ahead(held, stays):
            slot = self._ahead.pop()
            if not self._children[slot]:
                return slot
            self._numbers += 1
            self._parked[slot] = self._numbers
        return None

    def _look_ahead(self, held: Held, stays: dict[int, bool]) -> bool:
        slots = self._queue.pop()
        self._ask(slots, held, stays)
        self._ahead = slots[::-1].tolist()
        return len(slots) > 0

    def _path(self, slot: int) -> Slots:
        """The slot and its next ancestors."""
        path = [slot]
        while len(path) < PATH and (parent := self._parent_of(path[-1])) is not None:
            path.append(parent)
        return np.array(path, np.int64)

    def _ask(self, slots: Slots, held: Held, stays: dict[int, bool]) -> None:
        stays.update(zip(slots.tolist(), held(slots).tolist(), strict=True))

    def _parent_of(self, slot: int) -> int | None:
        """None: it is a root, or its parent has left."""
        parent, stay = int(self._parent[slot]), self._parent_stay[slot]
        return parent if stay and self._stay[parent] == stay else None

    def _leave_parent(self, slot: int) -> None:
        parent = self._parent_of(slot)
        if parent is None:
            return
        self._children[parent] -= 1
        if self._parked[parent] and not self._children[parent]:
            heappush(self._ready, (int(self._parked[parent]), parent))
