"""Least recently used leaves first, but no parent before its children."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvferry._core import Trees

from .policy import Held, Policy, Slots

__all__ = ["PrefixLru"]


class PrefixLru(Policy):
    """Trees of slots, as prefixes of token sequences form them: of all leaves the oldest leaves.

    A parent is as old as its last use, however long its children keep it. Who is held, and met as a
    leaf, counts as used. A parent that is removed leaves its children behind as roots.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self._trees = Trees(slots)

    def touch(self, slots: Slots) -> None:
        self._trees.touch(slots)

    def first(self, slots: Slots) -> Slots:
        return self._trees.first(slots)

    def members(self) -> Slots:
        return self._trees.members()

    def kin(self, slots: Slots) -> tuple[Slots, Slots]:
        return self._trees.kin(slots)

    def _insert(self, slots: Slots, prints: NDArray[np.uint64], parents: Slots) -> None:
        self._trees.insert(slots, parents)

    def _remove(self, slots: Slots) -> None:
        self._trees.remove(slots)

    def _victims(self, needed: int, held: Held) -> Slots:
        out, kept, asked = ([np.empty(0, np.int64)] for _ in range(3))
        try:
            while needed > 0 and len(slots := self._trees.ahead(self._about(needed, len(out)))):
                asked.append(slots)
                gone, stay = self._trees.leave(slots, held(slots), self.sizes, needed)
                out.append(gone)
                kept.append(stay)
                needed -= int(self.sizes[gone].sum())
        finally:
            self._trees.forget(np.concatenate(asked), np.concatenate(kept))
        return np.concatenate(out)
