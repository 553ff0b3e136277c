"""Which request has which blocks: a pool, hashes of prefixes and a table a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import UsageError
from .events import Event
from .hashing import Extras, PrefixHash
from .ids import NOBODY, Ids, IdsLike, blocks_for, check_counts, ids_of
from .one_thread import OneThread, one_thread
from .pool import NULL, BlockPool
from .prefix_cache import PrefixCache
from .request import Request
from .table import BlockTable, Copies, Slots

__all__ = ["Allocated", "BlockManager", "Hit"]


class Hit(NamedTuple):
    """Blocks that have the KV of a prompt's beginning, and of how many tokens."""

    blocks: Ids
    tokens: int


class Allocated(NamedTuple):
    """blocks  that the request got new
    copies  what has to be copied before anything is written
    """

    blocks: Ids
    copies: Copies


NO_HIT = Hit(NOBODY, 0)


@dataclass
class _Held:
    """cached  how many blocks of the table were offered to the prefix cache"""

    request: Request
    table: BlockTable
    cached: int = 0


class BlockManager(OneThread):
    """Decides over numbers of blocks, without their bytes. One thread at a time: what changes
    something raises UsageError (threads) when another thread is inside.

        hit = manager.get_computed_blocks(request)
        if manager.allocate_slots(request, tokens, hit=hit) is None: preempt somebody, or wait

    blocks     how many there are, of which the null block is one
    hashing    how prefixes are named
    watermark  blocks that stay free when a request begins, for those that are under way
    events     remember them for `take_events`
    """

    def __init__(
        self, blocks: int, hashing: PrefixHash, *, watermark: int = 0, events: bool = False
    ) -> None:
        if watermark < 0:
            raise UsageError(f"a watermark of {watermark} blocks", cause="watermark")
        super().__init__()
        self.hashing = hashing
        self.block_tokens = hashing.block_tokens
        self.prefixes = PrefixCache(hashing, blocks)
        self.pool = BlockPool(blocks, self.prefixes, events=events)
        self.watermark = watermark
        self._held: dict[str, _Held] = {}

    def request(self, name: str, tokens: IdsLike, extras: Extras | None = None) -> Request:
        """One to be served; it has no blocks yet."""
        return Request(name, tokens, self.hashing, extras)

    def table(self, request: Request) -> BlockTable:
        """Of a request that has blocks. Raises UsageError (request) for another one."""
        return self._holding(request).table

    def has_blocks(self, request: Request) -> bool:
        return self._found(request) is not None

    def slots(self, request: Request, start: int, stop: int) -> Slots:
        """Where these tokens of it are."""
        return self.table(request).slots(start, stop)

    # ---- a step ----

    def get_computed_blocks(self, request: Request) -> Hit:
        """What is there already of a request that has no blocks yet: full blocks from the first on,
        never all tokens. Nothing is changed: allocate before anybody else does."""
        if self._found(request) is not None:
            return NO_HIT
        blocks = self.prefixes.hit(request.hashes, len(request))
        return Hit(blocks, len(blocks) * self.block_tokens)

    @one_thread
    def allocate_slots(
        self,
        request: Request,
        tokens: int,
        *,
        hit: Hit = NO_HIT,
        lookahead: int = 0,
        external: int = 0,
        delay_cache: bool = False,
    ) -> Allocated | None:
        """Room for the next tokens of a request. None: there is not enough, nothing was changed.

        tokens       that this step computes
        hit          what get_computed_blocks found
        external     tokens behind the hit whose KV comes from elsewhere
        lookahead    tokens behind all of it that may be thrown away
        delay_cache  their blocks are not found by others before `cache_blocks`, because their KV
                     is yet to arrive

        Blocks that are full with these tokens are found at once, else: who finds them runs behind
        this step. Raises UsageError (tokens, hit, request) before anything is changed.
        """
        held = self._found(request)
        self._check(request, held, tokens, hit, lookahead, external)
        start = request.computed + hit.tokens
        known = start + external + tokens
        if self._short(held, hit, start, known + lookahead):
            return None
        held = held or self._held.setdefault(request.name, _Held(request, self._empty()))
        if len(hit.blocks):
            held.table.take(hit.blocks)
            held.cached = len(held.table)
        copies = held.table.own(start, known + lookahead)
        fresh = held.table.grow(known + lookahead)
        if copies is None or fresh is None:
            raise AssertionError("blocks were counted, and are not there")
        request.computed = known
        if not delay_cache:
            self.cache_blocks(request, known)
        return Allocated(fresh, copies)

    @one_thread
    def cache_blocks(self, request: Request, tokens: int) -> None:
        """Full blocks of the first so many tokens are found by others from now on. Raises
        UsageError (tokens) when not so many are computed, or will be after this step."""
        held, size = self._holding(request), self.block_tokens
        if not 0 <= tokens <= request.computed:
            raise UsageError(f"{tokens} tokens of {request.computed} computed", cause="tokens")
        first, last = held.cached, tokens // size
        if first >= last:
            return
        adapter = request.extras.adapter
        self.pool.cache(
            held.table.blocks[first:last],
            request.hashes[first:last],
            parent=request.hashes[first - 1] if first else None,
            tokens=request.tokens[first * size : last * size],
            adapter=adapter and adapter.name,
        )
        held.cached = last

    @one_thread
    def rewind(self, request: Request, tokens: int) -> list[str]:
        """KV behind so many tokens did not come to be after all, since a step or a load failed:
        it is found no more, and computed again next. Names of other requests that found one of
        these blocks meanwhile, and have to rewind, too."""
        held, kept = self._holding(request), tokens // self.block_tokens
        if not 0 <= tokens <= request.computed:
            raise UsageError(f"{tokens} tokens of {request.computed} computed", cause="tokens")
        lost = held.table.blocks[kept:]
        self.pool.uncache(lost)
        held.cached = min(held.cached, kept)
        request.computed = tokens
        others = [(name, each.table) for name, each in self._held.items() if each is not held]
        gone = lost[lost != NULL]
        return [name for name, table in others if np.isin(gone, table.blocks).any()]

    @one_thread
    def fork(self, request: Request, name: str) -> Request:
        """A request with the same tokens and blocks, which share them until one writes."""
        held = self._holding(request)
        if name in self._held:
            raise UsageError(f"request {name!r} has blocks already", cause="request")
        twin = request.fork(name)
        self._held[name] = _Held(twin, held.table.fork(), held.cached)
        return twin

    @one_thread
    def free(self, request: Request) -> None:
        """It is done: its blocks are free, the last one first; full ones are found until they are
        handed out. Of one that has none: nothing."""
        held = self._found(request)
        if held is not None:
            del self._held[request.name]
            held.table.free()
        request.computed = 0

    @one_thread
    def preempt(self, request: Request) -> None:
        """Others need its blocks: it begins anew, with what is found then."""
        self._holding(request)
        self.free(request)

    @one_thread
    def reset_prefix_cache(self) -> bool:
        """Nothing is found any more. False: blocks are used, and nothing was changed."""
        return self.pool.reset()

    def take_events(self) -> list[Event]:
        return self.pool.take_events()

    # ---- inside ----

    def check_integrity(self) -> list[str]:
        """What is wrong, one sentence each."""
        uses = np.zeros(self.pool.blocks, np.int64)
        wrong = self.pool.check_integrity()
        for name, held in self._held.items():
            wrong += [f"request {name!r}: {said}" for said in held.table.check_integrity()]
            np.add.at(uses, held.table.blocks, 1)
        uses[NULL] = 0
        if (uses != self.pool.uses(np.arange(self.pool.blocks))).any():
            wrong.append("blocks are not used as often as tables have them")
        return wrong

    def _empty(self) -> BlockTable:
        return BlockTable(self.pool, self.block_tokens)

    def _holding(self, request: Request) -> _Held:
        held = self._found(request)
        if held is None:
            raise UsageError(f"request {request.name!r} has no blocks", cause="request")
        return held

    def _found(self, request: Request) -> _Held | None:
        held = self._held.get(request.name)
        if held is not None and held.request is not request:
            raise UsageError(f"another request {request.name!r} has blocks", cause="request")
        return held

    def _check(
        self,
        request: Request,
        held: _Held | None,
        tokens: int,
        hit: Hit,
        lookahead: int,
        external: int,
    ) -> None:
        check_counts("tokens", tokens, lookahead, external)
        if request.computed + hit.tokens + external + tokens > len(request):
            raise UsageError(f"more tokens than the {len(request)} there are", cause="tokens")
        if held is None and request.computed:
            raise UsageError(f"request {request.name!r} is of another manager", cause="request")
        if len(hit.blocks) and held is not None:
            raise UsageError("a hit is for a request that has no blocks yet", cause="hit")
        if len(hit.blocks) * self.block_tokens != hit.tokens:
            raise UsageError("a hit is of full blocks", cause="hit")
        hashes = self.prefixes.hashes_of(ids_of(hit.blocks, self.pool.blocks))
        if hashes != request.hashes[: len(hashes)]:
            raise UsageError("these blocks have other KV by now", cause="hit")

    def _short(self, held: _Held | None, hit: Hit, start: int, tokens: int) -> bool:
        """Are there fewer free blocks than this takes?"""
        needed = blocks_for(tokens, self.block_tokens) + self.pool.unused(hit.blocks)
        needed -= len(hit.blocks)
        if held is None:
            return needed + self.watermark > self.pool.free_blocks
        needed = held.table.missing(tokens) + len(held.table.shared(start, tokens))
        return needed > self.pool.free_blocks
