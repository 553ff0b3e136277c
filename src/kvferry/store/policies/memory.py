"""What S3-FIFO remembers of those that left its small queue."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from kvferry._core import Ghosts

__all__ = ["Memory", "Recent"]


class Memory(ABC):
    """Fingerprints of those that left lately; what lately is, each says."""

    @abstractmethod
    def tell(self, prints: NDArray[np.uint64]) -> None:
        """These left, in this order."""

    @abstractmethod
    def back(self, prints: NDArray[np.uint64], most: int) -> NDArray[np.bool_]:
        """Which of these left lately; all of them are back now. `most`: members of the main
        queue."""


class Recent(Memory):
    """Lately: no more than `most` have left since. 64 bytes for eight, some forgotten early."""

    def __init__(self, slots: int) -> None:
        self._ghosts = Ghosts(slots)
        self._departed = 1  # how many have left, from 1; a ghost's word

    def tell(self, prints: NDArray[np.uint64]) -> None:
        numbers = np.arange(self._departed, self._departed + len(prints))
        self._departed += len(prints)
        # 0 stands for nothing known, so one number in 2**32 is told as the one after it.
        self._ghosts.tell(prints, np.maximum(numbers.astype(np.uint32), 1))

    def back(self, prints: NDArray[np.uint64], most: int) -> NDArray[np.bool_]:
        return self._ghosts.recent(prints, self._departed & 0xFFFFFFFF, most)
