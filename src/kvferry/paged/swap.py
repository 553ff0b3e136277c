"""The KV of a request: to a store, and back."""

from __future__ import annotations

from ..errors import UsageError
from .ids import blocks_for
from .manager import BlockManager, Hit
from .request import Request
from .stored import StoredBlocks
from .table import BlockTable

__all__ = ["swap_in", "swap_out"]


def swap_out(
    manager: BlockManager, request: Request, stored: StoredBlocks, tokens: int | None = None
) -> int:
    """Preempt a request, and keep the KV of its tokens in a store: of how many it is there, from
    the first on. Blocks; raises what putting raises, and then nothing was changed.

    tokens  how many are computed by now; None: all that were allocated for

    Raises UsageError (tokens, request), and (layout) where pages and blocks are of other sizes.
    """
    _check(manager, stored)
    table = manager.table(request)
    count = request.computed if tokens is None else tokens
    if not 0 <= count <= request.computed:
        raise UsageError(f"{count} tokens of {request.computed} computed", cause="tokens")
    blocks = table.blocks[: blocks_for(count, table.block_tokens)]
    if not blocks.all():
        raise UsageError("blocks of this request were let go", cause="tokens")
    there = stored.put(request.hashes_of(count), blocks)
    manager.free(request)
    return min(count, there * table.block_tokens)


def swap_in(
    manager: BlockManager, request: Request, stored: StoredBlocks, tokens: int
) -> int | None:
    """Give a request without blocks the KV of its first so many tokens, as far as the pool or the
    store has it: of how many; the rest is to be computed. None: there are not enough blocks, and
    nothing was changed.

    tokens  as many as were swapped out; or whole blocks of them, which another request may have
            stored. Of a part of a block that was not stored just so there is nothing

    Blocks. Raises what getting raises; the request has no blocks then. Before anything is changed
    UsageError (tokens), (layout) as swap_out, and (request) for one that has blocks.
    """
    _check(manager, stored)
    if manager.has_blocks(request):
        raise UsageError(f"request {request.name!r} has blocks", cause="request")
    if not 0 <= tokens <= len(request):
        raise UsageError(f"{tokens} tokens of {len(request)}", cause="tokens")
    hit = _within(manager.get_computed_blocks(request), tokens, manager.block_tokens)
    wanted = tokens - hit.tokens
    if manager.allocate_slots(request, 0, hit=hit, external=wanted, delay_cache=True) is None:
        return None
    try:
        request.computed = _restore(manager.table(request), request, stored, hit.tokens)
    except BaseException:
        manager.free(request)
        raise
    manager.cache_blocks(request, request.computed)
    return request.computed


def _check(manager: BlockManager, stored: StoredBlocks) -> None:
    ours, theirs = manager.block_tokens, stored.record.block_tokens
    if ours != theirs:
        raise UsageError(f"block_tokens is {ours} of blocks, {theirs} of pages", cause="layout")


def _within(hit: Hit, tokens: int, block_tokens: int) -> Hit:
    """As much of it as so many tokens fill."""
    kept = min(len(hit.blocks), tokens // block_tokens)
    return Hit(hit.blocks[:kept], kept * block_tokens)


def _restore(table: BlockTable, request: Request, stored: StoredBlocks, known: int) -> int:
    """Fill the blocks behind the first `known` tokens, which are there, and let go of those that
    the store has not: of how many tokens there is KV then."""
    first = blocks_for(known, table.block_tokens)
    hashes = request.hashes_of(table.tokens)
    there = first + stored.get(hashes[first:], table.blocks[first:])
    tokens = min(table.tokens, there * table.block_tokens)
    table.shorten(tokens)
    return tokens
