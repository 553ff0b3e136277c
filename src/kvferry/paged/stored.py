"""Blocks in a store, as pages under the hashes of their prefixes.

    key    hash of the prefix | identity of the layout, 16 bytes | shard, u16 | of how many, u16
    value  the page, as its LayoutRecord says                         little-endian

So KV of another model, dtype or order is not found where it would be misread, also where hashes
have no identity in them. What layout there is stands under a name of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..store import Answer, Pieces, Store
from .ids import IdsLike, blocks_for, check_counts, ids_of
from .layouts import LayoutRecord, PagedMemory, Refusal, Repack, Runs, compatible

__all__ = ["StoredBlocks"]

LAYOUT = b"kvferry.layout/"


class StoredBlocks:
    """The pages of one shard's pool in a store. Thread-safe as the store is.

    store   any kf.Store
    memory  where the blocks lie; its record says what they are

    Bytes go between the store and the pieces of memory in one call, without a copy between.
    """

    def __init__(self, store: Store, memory: PagedMemory) -> None:
        self.store = store
        self.memory = memory
        self.record = memory.record

    def put(self, hashes: Sequence[bytes], blocks: IdsLike) -> int:
        """Store blocks: how many are there now, from the first on. What was there stays. Blocks;
        raises as Store.put_batch does."""
        if not len(hashes):
            return 0
        keys, pieces = self._backwards(hashes, blocks)
        answers = self.store.put_batch(keys, pieces)
        if not answers.present.all():
            stored = answers.codes == Answer.STORED
            return self._put_first(keys[::-1], stored[::-1], blocks)
        return len(keys)

    def get(self, hashes: Sequence[bytes], blocks: IdsLike) -> int:
        """Fill blocks: how many were found, from the first on; those behind them are unspecified.
        Blocks; raises as Store.get_batch_into does."""
        if not len(hashes):
            return 0
        keys, pieces = self._backwards(hashes, blocks)
        found = self.store.get_batch_into(keys, pieces)
        whole = found.lengths == self.record.page_bytes
        return _leading((found.present & whole)[::-1])

    def has(self, hashes: Sequence[bytes], *, lease: float | None = None) -> int:
        """How many there are, from the first on; lease: they stay so many seconds."""
        if not len(hashes):
            return 0
        return _leading(self.store.exists_batch(_keys(hashes, self.record), lease=lease))

    # ---- of other layouts ----

    def publish(self, name: str) -> LayoutRecord:
        """Say under a name which layout the pages have, so that others find it: the record that
        stands there, which is that of whoever was first."""
        self.store.put(LAYOUT + name.encode(), self.record.encode())
        return self.published(name) or self.record

    def published(self, name: str) -> LayoutRecord | None:
        """What somebody said under this name; None: nobody did. Raises UsageError (layout) for
        what is no record."""
        raw = self.store.get(LAYOUT + name.encode())
        return None if raw is None else LayoutRecord.decode(raw)

    def get_repacked(
        self, theirs: LayoutRecord, hashes: Sequence[bytes], blocks: IdsLike, tokens: int
    ) -> int:
        """Fill blocks from pages of another layout: of how many tokens, from the first on.

        theirs  the layout; of which shard does not matter, all are read that are needed
        hashes  of their full blocks: the chain of a PrefixHash with their block size and identity
        blocks  ours, from the first one of the request on, for at least so many tokens

        Raises UsageError (layout) that names the field where no order of bytes helps, before
        anything is read. Behind the tokens that were found blocks are unspecified.
        """
        plan = compatible(self.record, theirs)
        if isinstance(plan, Refusal):
            raise UsageError(str(plan), cause="layout")
        ours = ids_of(blocks, self.memory.blocks)
        check_counts("tokens", tokens)
        wanted = min(tokens, len(hashes) * theirs.block_tokens)
        if len(ours) < blocks_for(wanted, self.record.block_tokens):
            raise UsageError(f"{len(ours)} blocks for {wanted} tokens", cause="blocks")
        runs = plan.runs(0, wanted, within=self.memory.piece_bytes)
        missing = self._fetch(plan, runs, hashes, ours)
        return min([wanted, *(block * theirs.block_tokens for block in missing)])

    def _fetch(
        self, plan: Repack, runs: Runs, hashes: Sequence[bytes], ours: NDArray[np.int64]
    ) -> list[int]:
        """Read runs to where they belong; which of their blocks are not there."""
        if not len(runs.length):
            return []
        page = runs.block * plan.theirs.shards + runs.shard
        order = np.argsort(page, kind="stable")
        pages, counts = np.unique(page, return_counts=True)
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.uint64)
        addresses = self.memory.at(ours[runs.our_block[order]], runs.our_offset[order])
        lengths = runs.length[order].astype(np.uint64)
        pieces = self.memory.gathered(starts, addresses, lengths)
        their_blocks, shards = np.divmod(pages, plan.theirs.shards)
        tails = {shard: _tail(plan.theirs, shard) for shard in set(shards.tolist())}
        keys = [
            hashes[block] + tails[shard]
            for block, shard in zip(their_blocks.tolist(), shards.tolist(), strict=True)
        ]
        found, _ = self.store.get_ranges(keys, pieces, runs.offset[order].astype(np.uint64))
        whole = found.present & (found.lengths == plan.theirs.page_bytes)
        missing: list[int] = their_blocks[~whole].tolist()
        return missing

    def _put_first(self, keys: list[bytes], stored: NDArray[np.bool_], blocks: IdsLike) -> int:
        """There is no room for all: those at the end that were `stored` yield to the first ones."""
        self.store.remove_batch([key for key, put in zip(keys, stored, strict=True) if put])
        return _leading(self.store.put_batch(keys, self.memory.pieces(blocks)).present)

    def _backwards(self, hashes: Sequence[bytes], blocks: IdsLike) -> tuple[list[bytes], Pieces]:
        """The last block first: it was used longest ago then, and leaves a full pool before those
        without which it is of no use."""
        if len(hashes) != len(blocks):
            raise UsageError(f"{len(hashes)} hashes of {len(blocks)} blocks", cause="hashes")
        return _keys(hashes[::-1], self.record), self.memory.pieces(blocks[::-1])


def _keys(hashes: Sequence[bytes], record: LayoutRecord) -> list[bytes]:
    tail = _tail(record, record.shard)
    return [hash_ + tail for hash_ in hashes]


def _tail(record: LayoutRecord, shard: int) -> bytes:
    """Of the keys of a shard's pages, behind the hash."""
    return record.identity[:16] + pack("<HH", shard, record.shards)


def _leading(there: NDArray[np.bool_]) -> int:
    """How many are there before the first that is not."""
    return len(there) if there.all() else int(np.argmin(there))
