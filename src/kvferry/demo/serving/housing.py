"""Which requests have blocks, and what KV is in them already: found, loaded, or to be computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...paged import BlockManager, BlockTable, PrefixHash
from ...paged.ids import blocks_for
from .costs import Costs
from .pages import Pages
from .prefixes import Prefixes
from .schedule import fits
from .sequence import Sequence

__all__ = ["Housing"]

SHORT = 64  # tokens; to compute so few is quicker than to ask somebody


class Housing:
    """clock: in seconds. One thread at a time."""

    def __init__(self, pages: Pages, prefixes: Prefixes, clock: Callable[[], float]) -> None:
        record = pages.record
        self.manager = BlockManager(
            pages.blocks, PrefixHash(record.block_tokens, identity=record.identity)
        )
        self.costs = Costs()
        self._pages, self._prefixes, self._clock = pages, prefixes, clock

    def table(self, sequence: Sequence) -> BlockTable:
        return self.manager.table(sequence.request)

    def house(self, sequence: Sequence, running: Iterable[Sequence]) -> str | None:
        """Give it blocks, and KV as far as there is some: which move it makes by that, "begin" or,
        where a long rest is to be asked of another worker, "await". None: there is no room yet
        beside what prompts that are running will still take."""
        needed = blocks_for(len(sequence.request), self.manager.block_tokens)
        promised = sum(self.table(each).missing(len(each.request)) for each in running)
        if not fits(needed, self.manager.pool.free_blocks, promised):
            return None
        return self._swap_in(sequence) if sequence.swapped else self._find(sequence)

    def take(self, sequence: Sequence, count: int) -> bool:
        """Room for so many more tokens of it. False: there is none."""
        taken = self.manager.allocate_slots(sequence.request, count)
        if taken is None:
            return False
        self._pages.copy(taken.copies)
        return True

    def evict(self, sequence: Sequence) -> None:
        """Others need its blocks; the store keeps its KV, if it can."""
        sequence.account.preempted += 1
        sequence.helped = False  # it is more than a prompt by now
        if sequence.push is not None:
            sequence.push.settle()
        sequence.swapped = self._prefixes.swap_out(self.manager, sequence.request)

    def leave(self, sequence: Sequence) -> None:
        """It is done. Its full blocks go to the store, and are found here until they are handed
        out."""
        request = sequence.request
        full = request.computed // self.manager.block_tokens
        self._prefixes.save(request.hashes[:full], self.table(sequence).blocks[:full])
        self.manager.free(request)

    def _swap_in(self, sequence: Sequence) -> str | None:
        restored = self._prefixes.swap_in(self.manager, sequence.request, sequence.swapped)
        if restored is None:
            return None
        sequence.swapped = 0
        if restored:
            return "begin"
        self.manager.free(sequence.request)
        return self._find(sequence)

    def _find(self, sequence: Sequence) -> str | None:
        request, size = sequence.request, self.manager.block_tokens
        hit = self.manager.get_computed_blocks(request)
        there = self._prefixes.has(request.hashes[len(hit.blocks) : (len(request) - 1) // size])
        if there and not self.costs.loading_pays():
            there = 0
        asks = sequence.helped and len(request) - hit.tokens - there * size > SHORT
        external = len(request) - hit.tokens if asks else there * size
        if not self.manager.allocate_slots(
            request, 0, hit=hit, external=external, delay_cache=True
        ):
            return None
        sequence.account.found = hit.tokens
        known = hit.tokens + self._load(sequence, len(hit.blocks), there)
        self.manager.rewind(request, known)
        self.manager.cache_blocks(request, known)
        return "await" if asks else "begin"

    def _load(self, sequence: Sequence, first: int, count: int) -> int:
        """Tokens of so many blocks that the store has, from block `first` on."""
        if not count:
            return 0
        size = self.manager.block_tokens
        blocks = self.table(sequence).blocks[first : first + count]
        begin = self._clock()
        got = self._prefixes.load(sequence.request.hashes[first : first + count], blocks) * size
        seconds = self._clock() - begin
        self.costs.loaded(got, seconds)
        account = sequence.account
        account.loaded += got
        account.loaded_bytes += got // size * self._pages.record.page_bytes
        account.loaded_seconds += seconds
        account.missing += count * size - got
        return got
