"""How objects leave the pool while somebody may be reading them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .answers import Cause
from .extents import Extents
from .ghosts import Ghosts
from .table import Entries, IndexLike, Ints, Words, prints_of
from .turnover import Turnover
from .witness import Witness

__all__ = ["Departures", "Hazards", "either"]

# Which of these generations, in ascending order, some reader holds.
Hazards: TypeAlias = Callable[[Words], NDArray[np.bool_]]


class Departures:
    """Mark, look at the hazard lines, remove; then the extent is free, or waits for its readers.

    Who finds the object after the mark reads nothing; who held it before is seen in the lines.
    """

    def __init__(
        self,
        index: IndexLike,
        extents: Extents,
        hazards: Hazards,
        ghosts: Ghosts,
        witnesses: Sequence[Witness] = (),
    ) -> None:
        self._index = index
        self._extents = extents
        self._hazards = hazards
        self._ghosts = ghosts
        self._witnesses = witnesses
        self.turnover = Turnover()
        self._generations = np.zeros(0, np.uint64)
        self.offsets = np.zeros(0, np.int64)
        self.rooms = np.zeros(0, np.int64)

    @property
    def bytes(self) -> int:
        """Bytes that wait for readers."""
        return int(self.rooms.sum())

    def leave(self, entries: Entries, cause: Cause) -> int:
        """Take these objects out; bytes that became free at once."""
        slots, generations = entries["slot"].astype(np.int64), _column(entries, "generation")
        self._index.mark(slots, generations)
        self.remember(entries["digest"], cause)
        held = self._held(generations)
        self._index.remove(slots, generations)
        for witness in self._witnesses:
            witness.left(entries, cause)
        offsets, rooms = entries["offset"].astype(np.int64), entries["room"].astype(np.int64)
        self.turnover.left(cause, len(entries), int(rooms.sum()))
        if held.any():
            self._keep(generations[held], offsets[held], rooms[held])
            offsets, rooms = offsets[~held], rooms[~held]
        self._extents.give(offsets, rooms)
        return int(rooms.sum())

    def settle(self) -> int:
        """Free what nobody holds any more; its bytes."""
        if not len(self._generations):
            return 0
        held = self._hazards(self._generations)
        offsets, rooms = self.offsets[~held], self.rooms[~held]
        kept = self._generations[held], self.offsets[held], self.rooms[held]
        self._generations, self.offsets, self.rooms = kept
        self._extents.give(offsets, rooms)
        return int(rooms.sum())

    def remember(self, digests: NDArray[np.uint64], cause: Cause) -> None:
        """Why these are not there."""
        self._ghosts.tell(prints_of(digests), np.full(len(digests), int(cause), np.uint32))

    def _held(self, generations: Words) -> NDArray[np.bool_]:
        order = generations.argsort()
        held = np.empty(len(order), np.bool_)
        held[order] = self._hazards(generations[order])
        return held

    def _keep(self, generations: Words, offsets: Ints, rooms: Ints) -> None:
        generations = np.concatenate((self._generations, generations))
        order = np.argsort(generations)
        self._generations = generations[order]
        self.offsets = np.concatenate((self.offsets, offsets))[order]
        self.rooms = np.concatenate((self.rooms, rooms))[order]


def _column(entries: Entries, name: str) -> Words:
    return np.ascontiguousarray(entries[name])


def either(one: Hazards, other: Hazards) -> Hazards:
    """Somebody of these or of those holds it."""
    return lambda generations: one(generations) | other(generations)
