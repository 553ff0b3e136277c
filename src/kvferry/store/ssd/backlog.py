"""What is to be written, in the order in which it came."""

from __future__ import annotations

from collections import deque

import numpy as np

from ..answers import Digests
from ..table import Entries, IndexLike, Ints, Words
from .shelf import footprints

__all__ = ["Backlog", "Void"]

AT_ONCE = 4096  # entries: others wait for the lock meanwhile

Chunk = tuple[Ints, Words]  # slots, generations


class Backlog:
    """Objects in memory that lie nowhere else: what is not there any more, once its turn comes, is
    lost, and that costs nothing. Takes 16 bytes each. One thread at a time.

    index  where they stand in memory
    """

    def __init__(self, index: IndexLike) -> None:
        self._index = index
        self._chunks: deque[Chunk] = deque()
        self._count = 0

    def __len__(self) -> int:
        """Also of those that have left since they came."""
        return self._count

    def add(self, slots: Ints, generations: Words) -> None:
        if not len(slots):
            return
        self._chunks.append((slots, generations))
        self._count += len(slots)
        if self._count > 2 * self._index.capacity:  # what comes outruns the disk
            self._prune()

    def give_back(self, slots: Ints, generations: Words) -> None:
        """What was taken stands at the front again."""
        if len(slots):
            self._chunks.appendleft((slots, generations))
            self._count += len(slots)

    def take(self, bytes: int) -> Entries:
        """The next ones that are there still, of so many bytes on a disk and no more than AT_ONCE
        or so; one at least if there is one."""
        taken = [self._index.read(np.empty(0, np.int64))]
        while self._chunks and bytes > 0 and sum(map(len, taken)) < AT_ONCE:
            slots, generations = self._next()
            entries = self._index.read(slots)
            there = np.flatnonzero(entries["generation"] == generations)
            sums = footprints(np.ascontiguousarray(entries["length"][there])).cumsum()
            fit = int(sums.searchsorted(bytes, "right"))
            if not fit and len(there) and sum(map(len, taken)) == 0:
                fit = 1
            if fit < len(there):
                self.give_back(slots[there[fit] :], generations[there[fit] :])
                bytes = 0
            elif fit:
                bytes -= int(sums[fit - 1])
            taken.append(entries[there[:fit]])
        return np.concatenate(taken)

    def _next(self) -> Chunk:
        slots, generations = self._chunks.popleft()
        self._count -= len(slots)
        self.give_back(slots[AT_ONCE:], generations[AT_ONCE:])
        return slots[:AT_ONCE], generations[:AT_ONCE]

    def _prune(self) -> None:
        chunks, self._count = list(self._chunks), 0
        self._chunks.clear()
        for slots, generations in chunks:
            there = self._index.read(slots)["generation"] == generations
            if there.any():
                self._chunks.append((slots[there], generations[there]))
                self._count += int(there.sum())


class Void:
    """Keys of which the disk has to be told that what it holds is void. One thread at a time.

    asked    how many there ever were: by this number one knows when those so far are told
    settled  how many of them are told
    """

    def __init__(self) -> None:
        self._digests: deque[Digests] = deque()
        self.asked = 0
        self.settled = 0

    def add(self, digests: Digests) -> None:
        if len(digests):
            self._digests.append(digests)
            self.asked += len(digests)

    def take(self) -> Digests:
        """All that are to be told; `told` or `give_back` follows."""
        digests = np.concatenate([np.empty((0, 2), np.uint64), *self._digests])
        self._digests.clear()
        return digests

    def told(self, count: int) -> None:
        self.settled += count

    def give_back(self, digests: Digests) -> None:
        if len(digests):
            self._digests.appendleft(digests)
