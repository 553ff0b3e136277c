"""What a catalog asks of its index and its ledger, native or dicts."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .answers import Answers, Digests

__all__ = [
    "Arrivals",
    "Entries",
    "IndexLike",
    "Ints",
    "LedgerLike",
    "SharedLike",
    "Words",
    "prints_of",
]

Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]

# Rows with the fields generation (0: nobody), digest, offset, length, room, attrs, slot, marked.
Entries: TypeAlias = NDArray[Any]
# Rows with the fields generation, print, room, expires (0: never), slot, parent (its slot or own).
Arrivals: TypeAlias = NDArray[Any]


class IndexLike(Protocol):
    """A table of objects by digest, of fixed size. Every verb takes a batch; slots are int64.

    In the place of a slot stands -1 for no such object, -2 for no free entry, -3 for present.
    """

    @property
    def capacity(self) -> int: ...

    @property
    def count(self) -> int: ...

    def find(self, digests: Digests) -> Ints:
        """Slots of objects that stand and are not marked."""

    def insert(
        self,
        digests: Digests,
        generations: Words,
        offsets: Words,
        lengths: Words,
        rooms: Words,
        attrs: Words,
    ) -> Ints:
        """Slots, or why there is none."""

    def mark(self, slots: Ints, generations: Words) -> NDArray[np.bool_]:
        """From now on readers find these no more."""

    def remove(self, slots: Ints, generations: Words) -> NDArray[np.bool_]:
        """Free the entries of marked objects."""

    def read(self, slots: Ints) -> Entries:
        """What is at each slot."""

    def scan(self, start: int, count: int) -> Entries:
        """All that is in slots `start` and on, of `count` slots."""

    def rivals(self, digests: Digests) -> Ints:
        """(n, k): the slots in one of which each would have to stand."""


class LedgerLike(Protocol):
    """Extents given out to be written, and the way of what was written into the index.

    An attempt is over with the commit or the abort that takes its extent; it is never used again.
    """

    @property
    def index(self) -> IndexLike:
        """Where its objects go."""

    @property
    def reserved(self) -> int:
        """Bytes of extents that may become objects."""

    @property
    def quarantined(self) -> int:
        """Bytes of extents that may not, and wait for their writers."""

    @property
    def left(self) -> int:
        """How many more extents there may be."""

    @property
    def pending(self) -> int:
        """How much `arrivals` would tell."""

    def held(self, user: int) -> tuple[int, int]:
        """Extents that a user has, and their bytes."""

    def open(self, user: int, offsets: Ints, rooms: Ints) -> Words:
        """An attempt for each extent. OverflowError: more than are left; nothing was opened."""

    def commit(
        self,
        user: int,
        attempts: Words,
        digests: Digests,
        lengths: Words,
        attrs: Words | None = None,
        parents: Digests | None = None,
        expires: Words | None = None,
    ) -> Answers:
        """STORED, PRESENT, LATE, UNKNOWN, TOO_LARGE, or INDEX_FULL: the catalog has to help."""

    def abort(self, user: int, attempts: Words) -> tuple[Answers, Ints, Ints]:
        """ABORTED, LATE, UNKNOWN; offsets and rooms of what became free."""

    def quarantine(self, user: int) -> int:
        """None of a user's extents may become an object; their bytes."""

    def gone(self, user: int) -> tuple[Ints, Ints]:
        """Offsets and rooms of all extents of a user, which are free."""

    def extents(self) -> tuple[Ints, Ints]:
        """Offsets and rooms of all that is given out."""

    def arrivals(self) -> tuple[Arrivals, Ints, Ints, Digests]:
        """Since the last call: what was stored; offsets and rooms of extents that became free,
        as their keys were present; what was refused and will not be stored."""


class SharedLike(Protocol):
    """Leases that users take in shared memory, a word for each slot of the index."""

    def begin(self) -> None:
        """Users take none from now on."""

    def end(self) -> None:
        """They do again; what was chosen is marked."""

    def held(self, slots: Ints, now: int, longest: int) -> NDArray[np.bool_]:
        """Which of these are leased. None is for longer than `longest`."""

    def clear(self, slots: Ints) -> None:
        """Nothing is leased there."""


def prints_of(digests: Digests) -> Words:
    """What of a digest is remembered when its object is gone."""
    return np.ascontiguousarray(digests[:, 1])
