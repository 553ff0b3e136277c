"""Our pool and manager."""

from __future__ import annotations

from ...paged import BlockManager, PrefixHash, Request
from .steps import BLOCK_TOKENS, BLOCKS, POOL, Subject

__all__ = ["Ours"]


class Ours(Subject):
    def __init__(self) -> None:
        self._manager = BlockManager(1 + POOL, PrefixHash(BLOCK_TOKENS))
        self._pool, self._prefixes = self._manager.pool, self._manager.prefixes

    def requested(self, name: str, tokens: list[int]) -> Request:
        return self._manager.request(name, tokens)

    def hashes(self) -> list[bytes]:
        hashes: list[bytes] = self.request.hashes
        return hashes

    def allocate(self) -> None:
        blocks = self._pool.allocate(BLOCKS)
        assert blocks is not None
        self._blocks = blocks

    def cache(self) -> None:
        self._pool.cache(self._blocks, self.request.hashes)

    def look_up(self) -> None:
        self.found.append(len(self._prefixes.hit(self.request.hashes, len(self.request))))

    def free(self) -> None:
        self._pool.free(self._blocks)

    def touch(self) -> None:
        self._pool.touch(self._blocks)

    def hit(self) -> None:
        self._hit = self._manager.get_computed_blocks(self.request)
        self.found.append(len(self._hit.blocks))

    def place(self) -> None:
        tokens = len(self.request) - self._hit.tokens
        assert self._manager.allocate_slots(self.request, tokens, hit=self._hit) is not None

    def end(self) -> None:
        self._manager.free(self.request)
