"""Which registered ranges descriptors lie in, and cutting those that span several. Pure.

ranges        |#### 0 ####|#### 1 ####|    |## 2 ##|
descriptors      |a|   |b . . . |               |c . . . |
pieces           |a|   |b'|b'' |               refused: nothing behind 2
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Cut", "Ranges", "Stray"]

U64 = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.intp]
ONE = np.uint64(1)


class Stray(Exception):
    """Descriptor `index` lies in no range, or leaves those it lies in."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class Cut(NamedTuple):
    """Descriptors in pieces that lie in one range each.

    source  position of the descriptor that each piece is of
    skip    bytes of the descriptor before the piece
    length  bytes of the piece
    range   position of the range it lies in
    """

    source: Indices
    skip: U64
    length: U64
    range: Indices


class Ranges:
    """Ranges that do not overlap, by address. Frozen; put in order when it is first asked."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        """`ranges`: (start, length), in any order."""
        self._ranges = tuple(ranges)

    @cached_property
    def starts(self) -> U64:
        return self._columns[:, 0]

    @cached_property
    def lasts(self) -> U64:
        """The address of each range's last byte."""
        return self._columns[:, 0] + self._columns[:, 1] - ONE

    @cached_property
    def _columns(self) -> U64:
        return np.array(sorted(self._ranges), np.uint64).reshape(-1, 2)

    @cached_property
    def _island(self) -> Indices:
        """Between ranges with equal numbers there is no gap."""
        gap = self.starts[1:] != self.lasts[:-1] + ONE
        return np.concatenate([np.zeros(1, np.intp), np.cumsum(gap)])

    def __len__(self) -> int:
        return len(self._ranges)

    def cut(self, addresses: U64, lengths: U64) -> Cut | None:
        """None when every descriptor lies in one range. Raises Stray.

        Lengths are above zero, and no descriptor wraps around the address space.
        """
        lasts = addresses + (lengths - ONE)
        first, last = self.holding(addresses), self.holding(lasts)
        if (first == last).all():
            return None
        apart = self._island[first] != self._island[last]
        if apart.any():
            raise Stray(int(apart.argmax()))
        counts = last - first + 1
        source = np.repeat(np.arange(len(counts)), counts)
        nth = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
        where = first[source] + nth
        begin = np.maximum(addresses[source], self.starts[where])
        end = np.minimum(lasts[source], self.lasts[where])
        return Cut(source, begin - addresses[source], end - begin + ONE, where)

    def holding(self, addresses: U64) -> Indices:
        """The position of the range that holds each address. Raises Stray."""
        if not len(self):
            raise Stray(0)
        found = np.searchsorted(self.starts, addresses, side="right") - 1
        outside = (found < 0) | (addresses > self.lasts[found])
        if outside.any():
            raise Stray(int(outside.argmax()))
        return found
