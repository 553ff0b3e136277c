"""Memory whose every byte says whether it is old or new.

region  |new |old |new |old | ...        a batch covers every second block; those between
         0    1    2    3                belong to nobody and must stay old
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "BLOCK",
    "NEW",
    "NEXT_LIFE",
    "OLD",
    "SIZE",
    "Bytes",
    "Census",
    "blocks",
    "census",
    "pattern",
]

BLOCK = 512
SIZE = 8 << 20
PERIOD = 65521  # of the bytes in a region: prime, so that a block that lands elsewhere is seen

OLD, NEW, NEXT_LIFE = 1, 2, 3  # lives of a region

Bytes = npt.NDArray[np.uint8]


class Census(NamedTuple):
    """Bytes of a region, counted.

    old, new  of the batch
    wrong     of the batch, and neither
    stray     outside the batch, and changed
    """

    old: int
    new: int
    wrong: int
    stray: int

    @property
    def clean(self) -> bool:
        return not self.wrong and not self.stray

    @property
    def complete(self) -> bool:
        return self.clean and not self.old

    @property
    def untouched(self) -> bool:
        return self.clean and not self.new


def pattern(seed: int) -> Bytes:
    """The bytes of a region in its `seed`-th life: no byte is the same in the life after."""
    period = (np.arange(PERIOD) * 31 // 8 + 101 * seed).astype(np.uint8)
    return np.resize(period, SIZE)


def blocks() -> npt.NDArray[np.int64]:
    """The blocks of the batch."""
    return np.arange(0, SIZE // BLOCK, 2, dtype=np.int64)


def census(found: Bytes, old: Bytes, new: Bytes) -> Census:
    """Judge every byte of a region that was `old` and whose batch brings `new`."""
    found, old, new = (each.reshape(-1, 2, BLOCK) for each in (found, old, new))
    inside = found[:, 0]
    olds = int((inside == old[:, 0]).sum())
    news = int((inside == new[:, 0]).sum())
    stray = int((found[:, 1] != old[:, 1]).sum())
    return Census(olds, news, inside.size - olds - news, stray)
