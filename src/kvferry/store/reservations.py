"""Extents for those who want to write: who may have how much, and where."""

from __future__ import annotations

import numpy as np

from .answers import Answer, Answers
from .extents import NOWHERE, Extents
from .records import Limits, Reserved
from .space import Space
from .table import Ints, LedgerLike

__all__ = ["Reservations"]

# As plain numbers, which arrays take faster.
RESERVED = int(Answer.RESERVED)
TOO_LARGE = int(Answer.TOO_LARGE)
FULL = int(Answer.FULL)


class Reservations:
    """Admits what a user may hold besides what it holds, and finds room for it."""

    def __init__(self, ledger: LedgerLike, extents: Extents, space: Space, limits: Limits) -> None:
        self._ledger = ledger
        self._extents = extents
        self._space = space
        self._most_extents = limits.reserved_extents
        self._most_bytes = int(limits.reserved_share * extents.capacity)

    def reserve(self, user: int, sizes: Ints, now: int) -> Reserved:
        """RESERVED, TOO_LARGE, or why there is no room."""
        rooms = self._extents.rooms(sizes)
        if self._admits_all(user, sizes, rooms):
            return self._place(user, rooms, now)
        answers = self._admit(user, sizes, rooms)
        admitted = np.flatnonzero(answers == RESERVED)
        return _among(answers, admitted, self._place(user, rooms[admitted], now))

    def _admits_all(self, user: int, sizes: Ints, rooms: Ints) -> bool:
        """True: `_admit` would refuse none of them."""
        extents, held = self._ledger.held(user)
        return (
            int(sizes.max(initial=0)) <= self._extents.capacity
            and extents + len(sizes) <= self._most_extents
            and len(sizes) <= self._ledger.left
            and held + int(rooms.sum()) <= self._most_bytes
        )

    def _admit(self, user: int, sizes: Ints, rooms: Ints) -> Answers:
        """RESERVED where only the pool can refuse. In order: what is refused counts for those
        after it, unless it was TOO_LARGE."""
        fits = sizes <= self._extents.capacity
        extents, held = self._ledger.held(user)
        extents_after = extents + np.cumsum(fits)
        held_after = held + np.cumsum(np.where(fits, rooms, 0))
        most = min(self._most_extents, extents + self._ledger.left)
        over = (extents_after > most) | ((held_after > self._most_bytes) & (extents_after > 1))
        return np.where(fits, np.where(over, FULL, RESERVED), TOO_LARGE).astype(np.uint8)

    def _place(self, user: int, rooms: Ints, now: int) -> Reserved:
        offsets = self._space.place(rooms, now)
        answers = np.full(len(rooms), RESERVED, np.uint8)
        placed = np.not_equal(offsets, NOWHERE)
        if placed.all():
            return Reserved(answers, self._ledger.open(user, offsets, rooms), offsets, rooms)
        answers[~placed] = self._space.why_not(int(rooms[~placed].min()), now)
        offsets, rooms = offsets[placed], rooms[placed]
        given = Reserved(answers[placed], self._ledger.open(user, offsets, rooms), offsets, rooms)
        return _among(answers, np.flatnonzero(placed), given)


def _among(answers: Answers, rows: Ints, given: Reserved) -> Reserved:
    """What was given for some rows, and these answers for all others."""
    answers = answers.copy()
    answers[rows] = given.answers
    attempts = np.zeros(len(answers), np.uint64)
    offsets, rooms = np.zeros(len(answers), np.int64), np.zeros(len(answers), np.int64)
    attempts[rows], offsets[rows], rooms[rows] = given[1:]
    return Reserved(answers, attempts, offsets, rooms)
