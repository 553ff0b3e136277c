"""What was removed of late, and is void at nodes that were away meanwhile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..answers import Digests

__all__ = ["Removals"]

MOST = 1 << 16  # digests, of 150 bytes each


class Removals:
    """The last that were removed, so many of them. Pure, one thread at a time."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._removed: dict[bytes, None] = {}  # in the order in which they were

    def __len__(self) -> int:
        return len(self._removed)

    def add(self, digests: Digests) -> None:
        for name in _names(digests):
            self._removed.pop(name, None)
            self._removed[name] = None
        while len(self._removed) > self._most:
            del self._removed[next(iter(self._removed))]

    def of(self, digests: Digests) -> NDArray[np.bool_]:
        """Which of these are void."""
        if not self._removed:
            return np.zeros(len(digests), np.bool_)
        return np.array([name in self._removed for name in _names(digests)], np.bool_)


def _names(digests: Digests) -> list[bytes]:
    raw = digests.tobytes()
    return [raw[at : at + 16] for at in range(0, len(raw), 16)]
