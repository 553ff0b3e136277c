"""Least recently used leaves first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvferry._core import Queue

from .policy import Held, Policy, Slots

__all__ = ["Lru"]


class Lru(Policy):
    """One line. Who is used goes to its back; so does who was met at the front and is held."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self._queue = Queue(slots)

    def touch(self, slots: Slots) -> None:
        self._queue.move(slots)

    def members(self) -> Slots:
        return self._queue.members()

    def first(self, slots: Slots) -> Slots:
        return self._queue.first(slots)

    def _insert(self, slots: Slots, prints: NDArray[np.uint64], parents: Slots) -> None:
        self._queue.push(slots)

    def _remove(self, slots: Slots) -> None:
        self._queue.drop(slots)

    def _victims(self, needed: int, held: Held) -> Slots:
        out, kept = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        while needed > 0 and len(slots := self._queue.pop(self._about(needed, len(out)))):
            stays = held(slots)
            freed = np.where(stays, 0, self.sizes[slots]).cumsum()
            enough = int(freed.searchsorted(needed)) + 1
            self._queue.give_back(slots[enough:])
            slots, stays = slots[:enough], stays[:enough]
            out.append(slots[~stays])
            kept.append(slots[stays])
            needed -= int(freed[len(slots) - 1])
        self._queue.push(np.concatenate(kept))
        return np.concatenate(out)
