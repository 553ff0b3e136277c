"""Which blocks have the KV of which prefixes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .hashing import PrefixHash
from .ids import NOBODY, Ids

__all__ = ["PrefixCache"]


class PrefixCache:
    """Full blocks by the hash of all tokens up to their end. One thread at a time.

    Several blocks may have one hash, since a block that is in a table is never exchanged: of
    these the one that came first is found, and the next when that one leaves.

        hash_of   block -> hash or None
        first     hash -> block that is found
        others    hash -> further blocks, oldest first; only where there are some
    """

    def __init__(self, hashing: PrefixHash, blocks: int) -> None:
        self.hashing = hashing
        self._hash_of = np.full(blocks, None, object)
        self._cached = np.zeros(blocks, np.bool_)
        self._first: dict[bytes, int] = {}
        self._others: dict[bytes, list[int]] = {}

    def __len__(self) -> int:
        """How many hashes there are."""
        return len(self._first)

    @property
    def room(self) -> int:
        """How many blocks can have one."""
        return len(self._cached)

    @property
    def blocks(self) -> int:
        """How many blocks have one."""
        return int(np.count_nonzero(self._cached))

    def hit(self, hashes: Sequence[bytes], tokens: int) -> Ids:
        """The longest row of blocks with the first of these hashes, of a prompt of so many tokens:
        never all of it, since the last token has to be computed for what comes next."""
        most = max(0, tokens - 1) // self.hashing.block_tokens
        if not most or not hashes or hashes[0] not in self._first:
            return NOBODY
        found = list(map(self._first.get, hashes[:most]))
        if None in found:
            found = found[: found.index(None)]
        return np.array(found, np.int64)

    def insert(self, blocks: Ids, hashes: Sequence[bytes]) -> None:
        """Blocks that have no hash get one. Raises UsageError (cached) when one has."""
        if len(blocks) != len(hashes):
            raise UsageError(f"{len(hashes)} hashes of {len(blocks)} blocks", cause="hashes")
        if self._cached[blocks].any():
            raise UsageError("a block has a hash already", cause="cached")
        numbers = blocks.tolist()
        self._hash_of[blocks] = hashes
        self._cached[blocks] = True
        found = list(map(self._first.setdefault, hashes, numbers))
        if found != numbers:
            for block, hash_, first in zip(numbers, hashes, found, strict=True):
                if block != first:
                    self._others.setdefault(hash_, []).append(block)

    def drop(self, blocks: Ids) -> list[bytes]:
        """These have no hash any more: the hashes that no block has now."""
        held = blocks[self._cached[blocks]]
        if not len(held):
            return []
        hashes: list[bytes] = self._hash_of[held].tolist()
        self._hash_of[held] = None
        self._cached[held] = False
        if not self._others:
            for hash_ in hashes:
                del self._first[hash_]
            return hashes
        pairs = zip(held.tolist(), hashes, strict=True)
        return [hash_ for block, hash_ in pairs if self._forget(block, hash_)]

    def _forget(self, block: int, hash_: bytes) -> bool:
        """It was the last of its hash."""
        others = self._others.get(hash_)
        if others is None:
            del self._first[hash_]
            return True
        if self._first[hash_] == block:
            self._first[hash_] = others.pop(0)
        else:
            others.remove(block)
        if not others:
            del self._others[hash_]
        return False

    def clear(self) -> None:
        self._hash_of.fill(None)
        self._cached.fill(False)
        self._first.clear()
        self._others.clear()

    def hashes_of(self, blocks: Ids) -> list[bytes | None]:
        found: list[bytes | None] = self._hash_of[blocks].tolist()
        return found

    def holds(self, blocks: Ids) -> NDArray[np.bool_]:
        """Which have a hash?"""
        held: NDArray[np.bool_] = self._cached[blocks]
        return held

    def check_integrity(self) -> list[str]:
        """What is wrong, one sentence each."""
        named = dict(enumerate(self._hash_of.tolist()))
        of_map = {block: hash_ for hash_, block in self._first.items()}
        of_map |= {block: hash_ for hash_, more in self._others.items() for block in more}
        count = len(self._first) + sum(map(len, self._others.values()))
        wrong = []
        if count != len(of_map):
            wrong.append("a block stands at two hashes")
        if of_map != {block: hash_ for block, hash_ in named.items() if hash_ is not None}:
            wrong.append("blocks do not have the hashes at which they stand")
        if self._cached.tolist() != [hash_ is not None for hash_ in named.values()]:
            wrong.append("not those are marked that have a hash")
        if not self._others.keys() <= self._first.keys() or [] in self._others.values():
            wrong.append("further blocks stand where there is no first, or none")
        return wrong
