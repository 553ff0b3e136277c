"""Which blocks the tokens of one request are in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .ids import NOBODY, Ids, IdsLike, blocks_for, check_counts, ids_of
from .pool import NULL, BlockPool

__all__ = ["BlockTable", "Copies", "Slots"]


class Slots(NamedTuple):
    """Where tokens are, each: its block, and its place there."""

    blocks: Ids
    offsets: Ids


class Copies(NamedTuple):
    """Blocks to copy before the targets are written to."""

    sources: Ids
    targets: Ids


NO_COPIES = Copies(NOBODY, NOBODY)


class BlockTable:
    """A row of blocks; token i is in block i // block_tokens of it. One thread at a time.

    It uses each of its blocks once, and grows at its end alone. Forks share blocks until one of
    them writes. Where blocks were let go, of tokens that nothing looks at any more, the null block
    stands.
    """

    def __init__(self, pool: BlockPool, block_tokens: int) -> None:
        self._pool = pool
        self._row = np.empty(16, np.int64)
        self._count = 0
        self.block_tokens = block_tokens
        self.tokens = 0  # for which there is room

    def __len__(self) -> int:
        return self._count

    @property
    def blocks(self) -> Ids:
        """All of them, in order: as it is now, read-only."""
        row = self._row[: self._count]
        row.flags.writeable = False
        return row

    def missing(self, tokens: int) -> int:
        """Blocks that there are too few for so many tokens."""
        return max(0, blocks_for(tokens, self.block_tokens) - self._count)

    def take(self, blocks: IdsLike) -> None:
        """Full blocks at the end that are there already: used once more. Raises UsageError (table)
        when the last block is not full."""
        if self.tokens != self._count * self.block_tokens:
            raise UsageError("full blocks behind one that is not full", cause="table")
        self._pool.touch(blocks)
        self._append(ids_of(blocks, self._pool.blocks))
        self.tokens = self._count * self.block_tokens

    def grow(self, tokens: int) -> Ids | None:
        """Room for so many tokens in all: the new blocks; None: there are not enough, and nothing
        was changed."""
        fresh = self._pool.allocate(self.missing(tokens))
        if fresh is not None:
            self._append(fresh)
            self.tokens = max(self.tokens, tokens)
        return fresh

    def shared(self, start: int, stop: int) -> Ids:
        """Which places of the row, of these tokens, others use or find, too."""
        first, last = start // self.block_tokens, blocks_for(stop, self.block_tokens)
        places: Ids = np.arange(first, max(first, min(last, self._count)))
        blocks = self._row[places]
        held = self._pool.uses(blocks) > 1
        if self._pool.prefixes is not None:
            held |= self._pool.prefixes.holds(blocks)
        mine: Ids = places[held & (blocks != NULL)]
        return mine

    def own(self, start: int, stop: int) -> Copies | None:
        """Blocks of its own for these tokens, which are about to be written: what has to be copied
        first. None: there are not enough, and nothing was changed."""
        places = self.shared(start, stop)
        if not len(places):
            return NO_COPIES
        fresh = self._pool.allocate(len(places))
        if fresh is None:
            return None
        before = self._row[places]
        self._row[places] = fresh
        self._pool.free(before)
        return Copies(before, fresh)

    def fork(self) -> BlockTable:
        """Another one with the same blocks."""
        twin = BlockTable(self._pool, self.block_tokens)
        twin._append(self.blocks)
        twin.tokens = self.tokens
        self._pool.touch(self.blocks)
        return twin

    def slots(self, start: int, stop: int) -> Slots:
        """Of the tokens from `start` to `stop`. Raises UsageError (tokens) where there is no room,
        or no block any more."""
        if not 0 <= start <= stop <= self.tokens:
            raise UsageError(f"tokens {start} to {stop} of {self.tokens}", cause="tokens")
        places, offsets = np.divmod(np.arange(start, stop), self.block_tokens)
        blocks = self._row[places]
        if len(blocks) and not blocks.all():
            raise UsageError("blocks of these tokens were let go", cause="tokens")
        return Slots(blocks, offsets)

    def let_go(self, tokens: int) -> None:
        """What lies wholly before this token is not needed any more, as behind a window; before
        token 0, or one that a window reaches beyond, there is nothing."""
        gone = self._row[: max(0, min(tokens // self.block_tokens, self._count))]
        self._pool.free(gone)
        gone[:] = NULL

    def shorten(self, tokens: int) -> None:
        """Keep so many tokens; blocks behind them are freed. Raises UsageError (tokens)."""
        check_counts("tokens", tokens)
        kept = blocks_for(tokens, self.block_tokens)
        self._pool.free(self._row[kept : self._count])
        self._count = min(kept, self._count)
        self.tokens = min(tokens, self.tokens)

    def free(self) -> None:
        """All blocks, in the reverse order; the table is empty then."""
        self.shorten(0)

    def check_integrity(self) -> list[str]:
        """What is wrong, one sentence each."""
        if self._count == blocks_for(self.tokens, self.block_tokens):
            return []
        return [f"{self._count} blocks for {self.tokens} tokens"]

    def _append(self, blocks: NDArray[np.int64]) -> None:
        end = self._count + len(blocks)
        if end > len(self._row):
            row = np.empty(max(end, 2 * len(self._row)), np.int64)
            row[: self._count] = self._row[: self._count]
            self._row = row
        self._row[self._count : end] = blocks
        self._count = end
