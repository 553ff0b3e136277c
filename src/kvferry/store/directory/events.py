"""What came and what went at all nodes, in numbered order, as far back as is kept.

number % most    digest (2 x u64)   kind   node
                 ...                u8     number of an address
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..answers import Digests

__all__ = [
    "CLEARED",
    "REMOVED",
    "STORED",
    "AllBlocksCleared",
    "BlockRemoved",
    "BlockStored",
    "Event",
    "Events",
    "Row",
]

MOST = 1 << 20  # events, of 19 bytes each
NODES = 1 << 12  # addresses that may be named

# Kinds.
STORED, REMOVED, CLEARED = 1, 2, 3


class BlockStored(NamedTuple):
    """A node has a key that it had not.

    number  of the event; None: it is older than those that are numbered
    key     what it is called, where the directory keeps names, and had heard of this one by then
    digest  16 bytes that stand for it, see Store.digests
    node    its address
    medium  "dram", or "dram+ssd" of a node that has a disk, too
    """

    number: int | None
    key: str | bytes | None
    digest: bytes
    node: str
    medium: str


class BlockRemoved(NamedTuple):
    """A node has it no more. The fields are those of BlockStored."""

    number: int
    key: str | bytes | None
    digest: bytes
    node: str
    medium: str


class AllBlocksCleared(NamedTuple):
    """All that was told of a node is void; of every node, where none is named: what there is
    follows as BlockStored."""

    number: int | None
    node: str | None


Event: TypeAlias = BlockStored | BlockRemoved | AllBlocksCleared


class Row(NamedTuple):
    """A node as events name it."""

    address: str
    medium: str


class Rows(NamedTuple):
    """Events up to number `last`. nodes: a number each, of `named`."""

    last: int
    kinds: NDArray[np.uint8]
    digests: Digests
    nodes: NDArray[np.uint16]


class Events:
    """The last of them. Pure, one thread at a time. Whoever reads less often than they are
    overwritten is told so.

    last  number of the one before the first
    """

    def __init__(self, most: int = MOST, last: int = 0) -> None:
        self._most = most
        self._digests = np.zeros((most, 2), np.uint64)
        self._kinds = np.zeros(most, np.uint8)
        self._nodes = np.zeros(most, np.uint16)
        self._numbers: dict[Row, int] = {}
        self._first = last + 1  # number of the oldest that may be told
        self.named: list[Row] = []
        self.last = last

    def note(self, node: Row, digests: Digests, kinds: NDArray[np.uint8]) -> None:
        """In this order. Digests of CLEARED mean nothing."""
        number = self._number(node)
        self._first = max(self._first, self.last + len(kinds) + 1 - self._most)
        kept = min(len(kinds), self._most)
        at = (np.arange(self.last + len(kinds) - kept, self.last + len(kinds))) % self._most
        self._digests[at] = digests[len(kinds) - kept :]
        self._kinds[at] = kinds[len(kinds) - kept :]
        self._nodes[at] = number
        self.last += len(kinds)

    def clear(self, node: Row) -> None:
        self.note(node, np.zeros((1, 2), np.uint64), np.array([CLEARED], np.uint8))

    def read(self, after: int, most: int) -> Rows | None:
        """Those behind number `after`; None: some of them are not kept any more, or never were."""
        if not self._first - 1 <= after <= self.last:
            return None
        last = min(after + most, self.last)
        at = np.arange(after, last) % self._most
        return Rows(last, self._kinds[at], self._digests[at], self._nodes[at])

    def _number(self, node: Row) -> int:
        if node not in self._numbers:
            if len(self.named) >= NODES:  # of nodes that were: everybody begins anew
                self._numbers, self.named, self._first = {}, [], self.last + 1
            self._numbers[node] = len(self.named)
            self.named.append(node)
        return self._numbers[node]
