"""What a catalog is given and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .answers import Answer, Answers, Digests
from .table import Entries, Ints, Words

__all__ = ["Commits", "Evicted", "Leased", "Limits", "Reserved", "Usage"]


@dataclass(frozen=True)
class Limits:
    """Shares of the pool and of the index: above `high` objects leave until it is `low`.

    A hash table refuses some keys before it is full; up to `entries_high` almost none.

    reserved_share    what one user may hold reserved, of the pool; one extent is never too much
    reserved_extents  how many extents one user may hold reserved
    longest_lease     nanoseconds
    ghosts            how many keys' causes are remembered, 8 bytes each
    """

    high: float = 0.95
    low: float = 0.90
    entries_high: float = 0.75
    entries_low: float = 0.74
    reserved_share: float = 0.25
    reserved_extents: int = 1 << 16
    longest_lease: int = 60_000_000_000
    ghosts: int = 1 << 16

    def entries(self, capacity: int) -> int:
        """How many entries of an index of this capacity may be in use."""
        return int(self.entries_high * capacity)


class Reserved(NamedTuple):
    """One row per size; where the answer refuses, the rest of the row is 0."""

    answers: Answers
    attempts: Words
    offsets: Ints
    rooms: Ints

    @classmethod
    def none(cls, answer: Answer, count: int) -> Reserved:
        """Every one refused with this answer."""
        nothing = np.zeros(count, np.uint64)
        answers = np.full(count, int(answer), np.uint8)
        return cls(answers, nothing, nothing.astype(np.int64), nothing.astype(np.int64))


class Commits(NamedTuple):
    """What was written, a row each. None: attrs are 0, nobody has a parent, nothing expires."""

    attempts: Words
    digests: Digests
    lengths: Words
    attrs: Words | None = None
    parents: Digests | None = None
    expires: Words | None = None

    def some(self, rows: NDArray[np.int64]) -> Commits:
        """These rows of it; contiguous."""
        attrs = None if self.attrs is None else self.attrs[rows]
        parents = None if self.parents is None else self.parents[rows]
        expires = None if self.expires is None else self.expires[rows]
        must = self.attempts[rows], self.digests[rows], self.lengths[rows]
        return Commits(*must, attrs, parents, expires)


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
