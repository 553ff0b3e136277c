"""What a block's bytes are: words that follow from its number, so that each can be verified."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

__all__ = ["Bodies"]

WORD = 8
SPREAD, STEP = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
MASK = (1 << 64) - 1

Words = NDArray[np.uint64]


class Bodies:
    """Word i of block n is n * SPREAD + i * STEP."""

    def __init__(self, size: int) -> None:
        if size <= 0 or size % WORD:
            raise UsageError(
                f"blocks of {size} bytes: they are made of words of {WORD}", cause="block_bytes"
            )
        self.size = size
        self._steps = np.arange(size // WORD, dtype=np.uint64) * np.uint64(STEP)

    def rows(self, count: int) -> Words:
        """Room for so many, a row each."""
        return np.empty((count, len(self._steps)), np.uint64)

    def fill(self, rows: Words, blocks: Sequence[int]) -> None:
        for row, block in zip(rows, blocks, strict=True):
            np.add(self._steps, self._first(block), out=row)

    def are(self, rows: Words, blocks: Sequence[int]) -> bool:
        """Is every byte as it has to be?"""
        return all(
            bool((row - self._steps == self._first(block)).all())
            for row, block in zip(rows, blocks, strict=True)
        )

    def _first(self, block: int) -> np.uint64:
        return np.uint64(block * SPREAD & MASK)
