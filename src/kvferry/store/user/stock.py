"""Extents that a user has reserved ahead, so that a put need not ask for one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..table import Ints, Words

__all__ = ["Extents", "Stock"]

MOST_AHEAD = 256  # extents of one room asked for at once

NONE = np.zeros(0, np.uint64)


class Extents(NamedTuple):
    """Places to write into; a row each."""

    attempts: Words
    offsets: Words
    rooms: Words

    def some(self, which: Ints) -> Extents:
        return Extents(self.attempts[which], self.offsets[which], self.rooms[which])


class Stock:
    """What is reserved and not used yet, by room. Not thread-safe.

    limit   bytes that it should at most hold, beside what is wanted this moment
    coming  bytes of an order that is under way, which count as held
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.coming = 0
        self._shelves: dict[int, tuple[Words, Words]] = {}  # room -> attempts, offsets
        self._ahead: dict[int, int] = {}  # room -> how many were asked for last

    def take(self, room: int, count: int) -> tuple[Words, Words]:
        """Attempts and offsets of up to `count` extents of this room."""
        attempts, offsets = self._shelves.get(room, (NONE, NONE))
        at = max(len(attempts) - count, 0)
        if at:
            self._shelves[room] = attempts[:at], offsets[:at]
        else:
            self._shelves.pop(room, None)
        self.bytes -= room * (len(attempts) - at)
        return attempts[at:], offsets[at:]

    def ahead(self, room: int) -> int:
        """How many more of this room to ask for, when one has to ask anyhow: each time twice as
        many as the last, as far as the limit lets it."""
        more = min(2 * self._ahead.get(room, 0) + 1, MOST_AHEAD, self._fits(room))
        self._ahead[room] = more
        return more

    def lacks(self, room: int, count: int) -> int:
        """How many to order when so many of this room were taken, lest the next who takes as many
        has to ask: none if there are enough, or could not be."""
        lacking = count - self.count(room)
        fits = self._fits(room)
        return 0 if lacking <= 0 or lacking > fits else min(lacking + self.ahead(room), fits)

    def count(self, room: int) -> int:
        """How many there are of this room."""
        return len(self._shelves.get(room, (NONE, NONE))[0])

    def _fits(self, room: int) -> int:
        return max(self.limit - self.bytes - self.coming, 0) // room

    def put(self, room: int, attempts: Words, offsets: Words) -> None:
        """Reserved, and not used."""
        if not len(attempts):
            return
        if room in self._shelves:
            kept = self._shelves[room]
            attempts = np.concatenate((kept[0], attempts))
            offsets = np.concatenate((kept[1], offsets))
            self.bytes -= room * len(kept[0])
        self._shelves[room] = attempts, offsets
        self.bytes += room * len(attempts)

    def empty(self) -> Words:
        """The attempts of all there is, which are the caller's to give back."""
        attempts = [shelf[0] for shelf in self._shelves.values()]
        self._shelves.clear()
        self._ahead.clear()
        self.bytes = 0
        return np.concatenate([NONE, *attempts])
