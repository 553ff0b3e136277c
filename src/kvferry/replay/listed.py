"""S3-FIFO as simulators of it have it: one block comes for each that leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._core import Queue
from ..store.policies import Memory, S3Fifo

__all__ = ["Listed", "PublishedS3Fifo"]

SHARE = 10


class Listed(Memory):
    """Lately: the last `most` that left and are not back. Prints are numbers below `unique`."""

    def __init__(self, unique: int, most: int) -> None:
        self._line = Queue(unique)
        self._most = most
        self._count = 0

    def knows(self, prints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return self._line.holds(prints.astype(np.int64))

    def in_danger(self, prints: NDArray[np.uint64]) -> bool:
        """Is one of these forgotten when one more leaves?"""
        if self._count < self._most:
            return False
        first = self._line.pop(1)
        self._line.give_back(first)
        return bool((prints == first).any())

    def tell(self, prints: NDArray[np.uint64]) -> None:
        self._line.push(prints.astype(np.int64))
        self._count += len(prints)
        if self._count > self._most:
            self._count -= len(self._line.pop(self._count - self._most))

    def back(self, prints: NDArray[np.uint64], most: int) -> NDArray[np.bool_]:
        known = self.knows(prints)
        if known.any():
            self._line.drop(prints[known].astype(np.int64))
            self._count -= int(known.sum())
        return known


class PublishedS3Fifo(S3Fifo):
    """The store's own policy over blocks of one size, with the small queue's share of the capacity,
    and as long a list of those that left as the main queue has room for.

    It is told who comes before it is asked who leaves: newcomers come in such groups that the
    outcome is as if one came for each that leaves.
    """

    def __init__(self, capacity: int, unique: int) -> None:
        self._share = max(capacity // SHARE, 1)
        self._listed = Listed(unique, capacity - self._share)
        self._joining = 0  # of those who come next, how many make the small queue longer
        super().__init__(capacity, self._listed)

    def together(self, prints: NDArray[np.uint64]) -> int:
        """How many of these, from the first on, come at once: those that are not known, but no more
        than the small queue has room for; or those that are."""
        known = self._listed.knows(prints[: self._share])
        others = known != known[0]
        count = int(others.argmax()) if others.any() else len(known)
        if not known[0]:
            self._joining = count
            return count
        self._joining = 1  # the first may find the small queue full, the others do not
        return 1 if self._listed.in_danger(prints[:count]) else self._unspared(count)

    def _unspared(self, most: int) -> int:
        """How many leave at the front of the main queue before one is spared; 1 at least."""
        slots = self._main.pop(most)
        self._main.give_back(slots)
        spared = self._uses[slots] > 0
        return max(int(spared.argmax()) if spared.any() else len(slots), 1)

    def _excess(self, needed: int) -> int:
        return self._small_bytes + self._joining - self._share
