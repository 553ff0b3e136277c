"""What a catalog is given and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .answers import Answers
from .table import Entries, Ints, Words

__all__ = ["Evicted", "Leased", "Limits", "Reserved", "Usage"]


@dataclass(frozen=True)
class Limits:
    """Shares of the pool and of the index: above `high` objects leave until it is `low`.

    A hash table refuses some keys before it is full; up to `entries_high` almost none.

    longest_lease  nanoseconds
    ghosts         how many keys' causes are remembered, 8 bytes each
    """

    high: float = 0.95
    low: float = 0.90
    entries_high: float = 0.75
    entries_low: float = 0.74
    longest_lease: int = 60_000_000_000
    ghosts: int = 1 << 16


class Reserved(NamedTuple):
    """One row per size; where the answer refuses, the rest of the row is 0."""

    answers: Answers
    attempts: Words
    offsets: Ints
    rooms: Ints


class Leased(NamedTuple):
    """One entry per key, of generation 0 where it is absent. Ticket 0: nothing was found."""

    ticket: int
    until: int
    answers: Answers
    entries: Entries


@dataclass(frozen=True)
class Evicted:
    """objects left; bytes became free at once; deferred bytes will, when their readers let go."""

    objects: int = 0
    bytes: int = 0
    deferred: int = 0

    def __add__(self, more: Evicted) -> Evicted:
        return Evicted(
            self.objects + more.objects, self.bytes + more.bytes, self.deferred + more.deferred
        )


@dataclass(frozen=True)
class Usage:
    """Bytes of a pool: free + objects + reserved + quarantined + deferred == capacity."""

    capacity: int
    free: int
    objects: int
    reserved: int
    quarantined: int
    deferred: int
    count: int
