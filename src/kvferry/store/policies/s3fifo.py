"""S3-FIFO: three queues, so that what is used once does not drive out what is used often.

Yang, Zhang, Qiu, Yue, Vinayak: FIFO queues are all you need for cache eviction (SOSP 2023).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvferry._core import Queue

from .memory import Memory, Recent
from .policy import Held, Policy, Slots

__all__ = ["S3Fifo"]

SMALL = 10  # the small queue's share of the bytes is one in so many
OFTEN = 2  # uses in the small queue that lead to the main one
MOST = 3  # uses that are counted

NOBODY = np.empty(0, np.int64)


class S3Fifo(Policy):
    """Newcomers stand in a small queue, and leave from there unless they are used twice.

    Who is known to have left the small queue lately, or was used twice in it, stands in the main
    one, where each use is worth one more round. Of a batch of victims the small queue gives what
    it has above its share of the bytes that are to remain, the main queue the rest.

    memory  who left the small queue lately; by default no more than the main one has members have
            left since
    """

    def __init__(self, slots: int, memory: Memory | None = None) -> None:
        super().__init__(slots)
        self._memory = memory or Recent(slots)
        self._small = Queue(slots)
        self._main = Queue(slots)
        self._small_bytes = 0
        self._main_count = 0
        self._uses = np.zeros(slots, np.uint8)
        self._prints = np.zeros(slots, np.uint64)

    def touch(self, slots: Slots) -> None:
        slots, times = np.unique(slots, return_counts=True)
        self._uses[slots] = np.minimum(self._uses[slots] + times, MOST)

    def first(self, slots: Slots) -> Slots:
        small = self._small.first(slots)
        return small if len(small) else self._main.first(slots)

    def members(self) -> Slots:
        return np.concatenate((self._small.members(), self._main.members()))

    def _insert(self, slots: Slots, prints: NDArray[np.uint64], parents: Slots) -> None:
        self._prints[slots] = prints
        known = self._memory.back(prints, self._main_count)
        fresh = slots[~known]
        self._join_small(fresh)
        if len(fresh) < len(slots):
            self._join_main(slots[known])

    def _remove(self, slots: Slots) -> None:
        small = self._small.holds(slots)
        self._small_bytes -= int(self.sizes[slots[small]].sum())
        self._main_count -= int((~small).sum())
        self._small.drop(slots)
        self._main.drop(slots)

    def _victims(self, needed: int, held: Held) -> Slots:
        out = self._from_small(self._excess(needed), needed, held)
        # What the main queue cannot give the small one has to, whose best go on to the main one.
        for take in (self._from_main, self._all_from_small, self._from_main):
            if (missing := needed - int(self.sizes[out].sum())) > 0:
                out = np.concatenate((out, take(missing, held)))
        return out

    def _excess(self, needed: int) -> int:
        """Bytes that have to leave the small queue, either way, for it to keep to its share."""
        return self._small_bytes - max(self.bytes - needed, 0) // SMALL

    def _all_from_small(self, needed: int, held: Held) -> Slots:
        return self._from_small(self._small_bytes, needed, held)

    def _from_small(self, excess: int, needed: int, held: Held) -> Slots:
        """`needed` bytes, or fewer when `excess` bytes have left this queue, either way."""
        if needed <= 0 or excess <= 0:
            return NOBODY
        out, kept = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        while (
            needed > 0
            and excess > 0
            and len(slots := self._small.pop(self._about(needed, len(out))))
        ):
            stays = held(slots)
            leaves = ~stays & (self._uses[slots] < OFTEN)
            sizes = self.sizes[slots]
            moved, freed = np.cumsum(np.where(stays, 0, sizes)), np.cumsum(leaves * sizes)
            enough = int(min(np.searchsorted(moved, excess), np.searchsorted(freed, needed))) + 1
            self._small.give_back(slots[enough:])
            slots, stays, leaves = slots[:enough], stays[:enough], leaves[:enough]
            self._small_bytes -= int(moved[len(slots) - 1])
            excess -= int(moved[len(slots) - 1])
            needed -= int(freed[len(slots) - 1])
            self._join_main(slots[~leaves & ~stays])
            out.append(slots[leaves])
            kept.append(slots[stays])
        self._small.push(np.concatenate(kept))
        gone = np.concatenate(out)
        if len(gone):
            self._memory.tell(self._prints[gone])
        return gone

    def _from_main(self, needed: int, held: Held) -> Slots:
        out, kept = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        while needed > 0 and len(slots := self._main.pop(self._about(needed, len(out)))):
            stays = held(slots)
            leaves = ~stays & (self._uses[slots] == 0)
            freed = np.cumsum(leaves * self.sizes[slots])
            enough = int(np.searchsorted(freed, needed)) + 1
            self._main.give_back(slots[enough:])
            slots, stays, leaves = slots[:enough], stays[:enough], leaves[:enough]
            needed -= int(freed[len(slots) - 1])
            again = slots[~leaves & ~stays]
            self._uses[again] -= 1
            self._main.push(again)
            out.append(slots[leaves])
            kept.append(slots[stays])
        self._main.push(np.concatenate(kept))
        gone = np.concatenate(out)
        self._main_count -= len(gone)
        return gone

    def _join_small(self, slots: Slots) -> None:
        self._uses[slots] = 0
        self._small_bytes += int(self.sizes[slots].sum())
        self._small.push(slots)

    def _join_main(self, slots: Slots) -> None:
        self._uses[slots] = 0
        self._main_count += len(slots)
        self._main.push(slots)
