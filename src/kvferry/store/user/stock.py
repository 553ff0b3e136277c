"""Extents that a user has reserved ahead, so that a put need not ask for one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..table import Words

__all__ = ["Extents", "Stock"]

MOST_AHEAD = 64  # extents of one size asked for at once


class Extents(NamedTuple):
    """Places to write into; a row each."""

    attempts: Words
    offsets: Words
    rooms: Words


class Stock:
    """What is reserved and not used yet, by room. Not thread-safe.

    limit  bytes that it should at most hold, beside what is wanted this moment
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._shelves: dict[int, list[tuple[int, int]]] = {}  # room -> attempt, offset
        self._ahead: dict[int, int] = {}  # room -> how many were asked for last

    def take_one(self, room: int) -> tuple[int, int] | None:
        """Attempt and offset of an extent of this room."""
        shelf = self._shelves.get(room)
        if not shelf:
            return None
        self.bytes -= room
        return shelf.pop()

    def take(self, room: int, count: int) -> list[tuple[int, int]]:
        """Up to `count` of this room."""
        shelf = self._shelves.get(room)
        if not shelf:
            return []
        at = max(len(shelf) - count, 0)
        taken = shelf[at:]
        del shelf[at:]
        self.bytes -= room * len(taken)
        return taken

    def ahead(self, room: int) -> int:
        """How many more of this room to ask for, when one has to ask anyhow: each time twice as
        many as the last, as far as the limit lets it."""
        fits = max(self.limit - self.bytes, 0) // room
        more = min(2 * self._ahead.get(room, 0) + 1, MOST_AHEAD, fits)
        self._ahead[room] = more
        return more

    def put(self, room: int, extents: list[tuple[int, int]]) -> None:
        """Reserved, and not used."""
        if extents:
            self._shelves.setdefault(room, []).extend(extents)
            self.bytes += room * len(extents)

    def empty(self) -> Words:
        """The attempts of all there is, which are the caller's to give back."""
        attempts = [each[0] for shelf in self._shelves.values() for each in shelf]
        self._shelves.clear()
        self._ahead.clear()
        self.bytes = 0
        return np.array(attempts, np.uint64)
