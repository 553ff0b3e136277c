"""Where values go that are read into pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...batch import Batch
from ...memory import RemoteRegion
from ..answers import Answer
from ..messages import Spots
from ..table import Ints, Words
from . import carry
from .found import Found, Key
from .pieces import Pieces

__all__ = ["Parts", "Target", "Whole"]

Said = tuple[NDArray[np.uint8], Words]


class Target(ABC):
    """Of one call, a row of pieces for each key. Below, `rows` says of which keys; None: of all."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces

    @abstractmethod
    def copy(self, reader: _core.IndexReader, keys: Sequence[Key], rows: Ints | None) -> Said:
        """From where they lie; what the reader says, and lengths."""

    @abstractmethod
    def unload(
        self, pool: RemoteRegion, spots: Spots, cargo: bytes, rows: Ints | None
    ) -> tuple[Ints, Batch | None]:
        """What has come along with the answer of a node elsewhere; which have not, and what to read
        for them from its pool. The answer is TOO_SMALL where one does not fit."""

    def settle(self, found: Found) -> None:
        """All was read."""
        return

    def _some(self, rows: Ints | None) -> Pieces:
        return self.pieces if rows is None else self.pieces.some(rows)


class Whole(Target):
    """Each value over the pieces of its row, in order."""

    def copy(self, reader: _core.IndexReader, keys: Sequence[Key], rows: Ints | None) -> Said:
        return _core.scatter_all(reader, keys, self._some(rows))

    def unload(
        self, pool: RemoteRegion, spots: Spots, cargo: bytes, rows: Ints | None
    ) -> tuple[Ints, Batch | None]:
        pieces = self._some(rows)
        left = _core.unload_rows(*spots, cargo, pieces)
        rest = pieces.some(left)
        sizes = rest.spread(spots.lengths[left])
        lengths = np.minimum(rest.lengths, sizes - np.minimum(rest.offsets, sizes))
        places = rest.spread(spots.offsets[left]) + rest.offsets
        return left, carry.batch_of(pool, places, rest, lengths)


class Parts(Target):
    """Of each value the bytes from an offset on, for each piece.

    moved  bytes of each piece, or BEYOND: the value has not so many, or was not found
    """

    def __init__(self, pieces: Pieces, offsets: Words) -> None:
        super().__init__(pieces)
        self.moved = np.full(len(offsets), _core.BEYOND, np.int64)
        self._offsets = offsets

    def copy(self, reader: _core.IndexReader, keys: Sequence[Key], rows: Ints | None) -> Said:
        if rows is None:
            said, lengths, self.moved = _core.pick_all(reader, keys, self.pieces, self._offsets)
            return said, lengths
        which = self.pieces.places(rows)
        found = _core.pick_all(reader, keys, self._some(rows), self._offsets[which])
        said, lengths, self.moved[which] = found
        return said, lengths

    def unload(
        self, pool: RemoteRegion, spots: Spots, cargo: bytes, rows: Ints | None
    ) -> tuple[Ints, Batch | None]:
        every = np.arange(len(self.pieces)) if rows is None else rows
        which, pieces = self.pieces.places(every), self._some(rows)
        offsets, moved = self._offsets[which], np.full(len(which), _core.BEYOND, np.int64)
        left = _core.unload_parts(*spots, cargo, pieces, offsets, moved)
        there, rest = pieces.places(left), pieces.some(left)
        begins, sizes = offsets[there], rest.spread(spots.lengths[left])
        within = (begins <= sizes) & (rest.lengths <= sizes - np.minimum(begins, sizes))
        moved[there] = np.where(within, rest.lengths.view(np.int64), _core.BEYOND)
        self.moved[which] = moved
        lengths = np.where(within, rest.lengths, np.uint64(0))
        places = rest.spread(spots.offsets[left]) + np.where(within, begins, np.uint64(0))
        return left, carry.batch_of(pool, places, rest, lengths)

    def settle(self, found: Found) -> None:
        """What a transfer was begun for and has failed is not told as moved."""
        self.moved[~self.pieces.spread(found.answers == Answer.FOUND)] = _core.BEYOND
