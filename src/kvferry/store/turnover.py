"""How much came to a node's memory and left it."""

from __future__ import annotations

import numpy as np

from .answers import Cause

__all__ = ["Turnover"]


class Turnover:
    """Sums since the node began, in objects and in bytes of their extents. Not thread-safe."""

    def __init__(self) -> None:
        self._came = np.zeros(2, np.int64)
        self._left = np.zeros((len(Cause), 2), np.int64)

    def came(self, objects: int, bytes: int) -> None:
        """Put by users, or brought from a disk."""
        self._came += objects, bytes

    def left(self, cause: Cause, objects: int, bytes: int) -> None:
        self._left[cause] += objects, bytes

    def figures(self) -> dict[str, dict[str, int]]:
        objects, bytes = self._came.tolist()
        names = [cause.name.lower() for cause in Cause]
        return {
            "came": {"objects": objects, "bytes": bytes},
            "left": dict(zip(names, self._left[:, 0].tolist(), strict=True)),
            "left_bytes": dict(zip(names, self._left[:, 1].tolist(), strict=True)),
        }
