"""A pure twin of the native index: a dict, for tests and replay. Every slot comes out the same."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .._core import ENTRY, FULL, NOWHERE, PRESENT

__all__ = ["DictIndex"]

BUCKET = 8
GENERATIONS = 1 << 63

Digest = tuple[int, int]
Words = NDArray[np.uint64]
Slots = NDArray[np.int64]


class DictIndex:
    """`_core.Index` without memory to share. One thread at a time; arrays are never kept."""

    def __init__(self, capacity: int) -> None:
        self._buckets = max(2 * -(-capacity // (2 * BUCKET)), 2)
        self._rows = np.zeros(self.capacity, ENTRY)
        self._rows["slot"] = np.arange(self.capacity)
        self._slots: dict[Digest, int] = {}
        self._count = 0

    @property
    def capacity(self) -> int:
        return self._buckets * BUCKET

    @property
    def count(self) -> int:
        return self._count

    def find(self, digests: Words) -> Slots:
        return _slots(self._slots.get(digest, NOWHERE) for digest in _tuples(digests))

    def rivals(self, digests: Words) -> Slots:
        rows = [[*range(a, a + BUCKET), *range(b, b + BUCKET)] for a, b in self._homes(digests)]
        return np.array(rows, np.int64).reshape(-1, 2 * BUCKET)

    def insert(
        self,
        digests: Words,
        generations: Words,
        offsets: Words,
        lengths: Words,
        rooms: Words,
        attrs: Words,
    ) -> Slots:
        if not all(1 <= generation < GENERATIONS for generation in generations.tolist()):
            raise ValueError("a generation is from 1 to 2**63 - 1")
        columns = (generations, offsets, lengths, rooms, attrs)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        each = zip(_tuples(digests), self._homes(digests), rows, strict=True)
        return _slots(self._insert(digest, homes, row) for digest, homes, row in each)

    def mark(self, slots: Slots, generations: Words) -> NDArray[np.bool_]:
        return self._each(slots, generations, marked=False)

    def remove(self, slots: Slots, generations: Words) -> NDArray[np.bool_]:
        return self._each(slots, generations, marked=True)

    def read(self, slots: Slots) -> NDArray[np.void]:
        rows = np.zeros(len(slots), ENTRY)
        there = (slots >= 0) & (slots < self.capacity)
        rows["slot"] = slots.astype(np.uint32)
        rows[there] = self._rows[slots[there]]
        return rows

    def scan(self, start: int, count: int) -> NDArray[np.void]:
        rows = self._rows[start : start + count]
        there: NDArray[np.void] = rows[rows["generation"] != 0]
        return there

    def _homes(self, digests: Words) -> list[tuple[int, int]]:
        """The first slots of the two buckets of each."""
        scaled = (digests >> np.uint64(32)) * np.uint64(self._buckets) >> np.uint64(32)
        return _tuples(scaled * np.uint64(BUCKET))

    def _insert(
        self, digest: Digest, homes: tuple[int, int], row: tuple[int, int, int, int, int]
    ) -> int:
        if digest in self._slots:
            return PRESENT
        one, two = (self._free(home) for home in homes)
        free = two if len(two) > len(one) else one
        if not free:
            return FULL
        generation, *place = row
        self._rows[free[0]] = (generation, digest, *place, free[0], False)
        self._slots[digest] = free[0]
        self._count += 1
        return free[0]

    def _free(self, home: int) -> list[int]:
        empty = self._rows["generation"][home : home + BUCKET] == 0
        return [home + at for at in np.flatnonzero(empty).tolist()]

    def _each(self, slots: Slots, generations: Words, marked: bool) -> NDArray[np.bool_]:
        pairs = zip(slots.tolist(), generations.tolist(), strict=True)
        return np.array([self._step(*pair, marked) for pair in pairs], np.bool_)

    def _step(self, slot: int, generation: int, marked: bool) -> bool:
        """Of an entry that stands to a marked one, of a marked one to none."""
        if not 0 <= slot < self.capacity or generation == 0:
            return False
        row = self._rows[slot]
        if row["generation"] != generation or row["marked"] != marked:
            return False
        if marked:
            self._rows[slot] = np.zeros((), ENTRY)
            self._rows["slot"][slot] = slot
            self._count -= 1
        else:
            self._rows["marked"][slot] = True
            del self._slots[tuple(row["digest"].tolist())]
        return True


def _tuples(rows: Words) -> list[tuple[int, int]]:
    return [(a, b) for a, b in rows.tolist()]


def _slots(each: Iterable[int]) -> Slots:
    return np.array(list(each), np.int64)
