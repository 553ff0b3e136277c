"""How large the pool of a staging path is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .._core import BouncePool
from ..errors import NoMemory, UsageError

__all__ = ["PoolSpec"]

MIB = 1 << 20
MOST_BUFFERS = 64
MOST_MIB = 1024


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """`count` buffers of `size` bytes each. No buffers: nothing is staged."""

    count: int = 4
    size: int = 8 * MIB

    @classmethod
    def parse(cls, text: str) -> PoolSpec:
        """From ``NUM:SIZE_MB``, such as ``4:8``; ``0:0`` is off. Raises UsageError."""
        found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)
        count, mib = map(int, found.groups()) if found else (-1, -1)
        if (count, mib) != (0, 0) and not (1 <= count <= MOST_BUFFERS and 1 <= mib <= MOST_MIB):
            raise UsageError(
                f"pool {text!r} is not NUM:SIZE_MB with NUM from 1 to {MOST_BUFFERS} and SIZE_MB "
                f"from 1 to {MOST_MIB}, nor 0:0 for none",
                cause="pool",
            )
        return cls(count, mib * MIB)

    def make(self) -> BouncePool | None:
        """A pool; None when it is off. Raises NoMemory."""
        if self.count == 0:
            return None
        try:
            return BouncePool(self.count, self.size)
        except MemoryError as error:
            raise NoMemory(f"no memory for a pool of {self}", cause="no_memory") from error

    def __str__(self) -> str:
        return f"{self.count}:{self.size // MIB}"
