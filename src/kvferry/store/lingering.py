"""Objects that were removed in spite of a lease: who was given it may read them until it ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .table import Ints, Words

__all__ = ["Lingering"]


class Lingering:
    """Their generations, each until a moment, ns. As many as there are leased objects at most."""

    def __init__(self) -> None:
        self._generations = np.zeros(0, np.uint64)
        self._until = np.zeros(0, np.int64)

    def add(self, generations: Words, until: Ints) -> None:
        self._generations = np.concatenate((self._generations, generations))
        self._until = np.concatenate((self._until, until))

    def expire(self, now: int) -> None:
        """Leases that have ended hold nothing."""
        if len(self._until):
            kept = self._until > now
            self._generations, self._until = self._generations[kept], self._until[kept]

    def held(self, generations: Words) -> NDArray[np.bool_]:
        """As hazards of departures."""
        if not len(self._generations):
            return np.zeros(len(generations), np.bool_)
        return np.isin(generations, self._generations)
