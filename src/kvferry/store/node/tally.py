"""What a node counts: how users' reads ended, why keys were not there, which way bytes went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..answers import Cause
from ..table import Words

if TYPE_CHECKING:
    from .members import Member

__all__ = ["Tally"]

PLACES = {name: at for at, name in enumerate(_core.COUNTERS)}
BYTES = PLACES["bytes"]
MOST = 1 << 62  # of what users say of themselves


class Tally:
    """Sums since the node began; those of users that left are kept. Not thread-safe."""

    def __init__(self) -> None:
        self._reads = np.zeros(len(_core.COUNTERS), np.uint64)
        self._misses = np.zeros(len(Cause), np.int64)
        self._traffic: Counter[str] = Counter()  # bytes by way

    def keep(self, member: Member) -> None:
        """The user leaves."""
        if member.lines is not None:
            counters = member.lines.counters()
            self._reads += counters
            self._traffic[f"{member.link.value}.read"] += int(counters[BYTES])

    def missed(self, causes: NDArray[np.uint8]) -> None:
        """So many keys were not found, each for a Cause."""
        self._misses += np.bincount(causes, minlength=len(Cause))[: len(Cause)]

    def located(self, member: Member, hits: int, bytes: int, absent: int) -> None:
        """So many objects, of so many bytes, are read or leased from afar; others are absent."""
        self._traffic[f"{member.link.value}.read"] += bytes
        for name, count in ("hits", hits), ("bytes", bytes), ("absent", absent):
            self._reads[PLACES[name]] += count

    def written(self, member: Member, bytes: int) -> None:
        """The user wrote objects, and told so in a message."""
        self._traffic[f"{member.link.value}.written"] += bytes

    def traffic(self, members: Iterable[Member]) -> dict[str, int]:
        """Bytes by way, "tcp.read" and so on, with those of users that are there. What users with a
        desk write is not in it: nobody asks them."""
        sums = Counter(self._traffic)
        for member in members:
            if member.lines is not None:
                sums[f"{member.link.value}.read"] += int(member.lines.counters()[BYTES])
        return {way: min(bytes, MOST) for way, bytes in sums.items() if bytes}

    def reads(self, others: list[Words]) -> dict[str, int]:
        """With the counters of users that are there."""
        sums = sum(others, self._reads.copy())
        return dict(zip(_core.COUNTERS, map(int, sums), strict=True))

    def misses(self) -> dict[str, int]:
        """By cause, as far as users could tell of each: a sample where there are very many."""
        return {cause.name.lower(): int(self._misses[cause]) for cause in Cause}
