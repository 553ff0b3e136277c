"""When objects are no longer of use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .table import Ints, Words

__all__ = ["Expiry"]


class Expiry:
    """A moment for each slot, in nanoseconds of whatever clock `now` is; 0: never."""

    def __init__(self, slots: int) -> None:
        self.moments = np.zeros(slots, np.uint64)
        self._any = False  # some object was stored with a moment to expire at

    def tell(self, slots: Ints, moments: Words) -> None:
        """Something new is at these slots."""
        if self._any or moments.any():
            self._any = True
            self.moments[slots] = moments

    def due(self, now: int) -> Ints:
        """Slots whose moment has come; some of them of objects that left before."""
        if not self._any:
            return np.empty(0, np.int64)
        return np.flatnonzero((self.moments != 0) & (self.moments <= np.uint64(now)))

    def over(self, slots: Ints, now: int) -> NDArray[np.bool_]:
        """Of which of these the moment has come."""
        moments = self.moments[slots]
        over: NDArray[np.bool_] = (moments != 0) & (moments <= np.uint64(now))
        return over

    def forget(self, slots: Ints) -> None:
        self.moments[slots] = 0
