"""A request as a block manager sees it: its tokens, and the hashes of its full blocks."""

from __future__ import annotations

from copy import copy

import numpy as np

from ..errors import UsageError
from .hashing import Extras, PrefixHash, Tokens, tokens_of
from .ids import IdsLike

__all__ = ["Request"]


class Request:
    """One row of tokens that grows. One thread at a time.

    name      by which a manager knows it
    tokens    the prompt; `append` adds those that were generated
    extras    salt, adapter, media
    computed  of how many tokens there is KV in its blocks, or will be after the step under way
    """

    def __init__(
        self, name: str, tokens: IdsLike, hashing: PrefixHash, extras: Extras | None = None
    ) -> None:
        first = tokens_of(tokens)
        if not len(first):
            raise UsageError("a request without tokens", cause="tokens")
        self.name = name
        self.extras = extras or Extras()
        self.computed = 0
        self._hashing = hashing
        self._tokens = first.copy()
        self._count = len(first)
        self._hashes: list[bytes] = hashing.chain(first, self.extras)

    def __len__(self) -> int:
        return self._count

    @property
    def tokens(self) -> Tokens:
        """All of them, as they are now: read-only."""
        view = self._tokens[: self._count]
        view.flags.writeable = False
        return view

    @property
    def hashes(self) -> list[bytes]:
        """Of the full blocks of all tokens."""
        return self._hashes

    def append(self, tokens: IdsLike) -> None:
        more = tokens_of(tokens)
        end = self._count + len(more)
        if end > len(self._tokens):
            grown = np.empty(max(end, 2 * len(self._tokens)), np.int64)
            grown[: self._count] = self.tokens
            self._tokens = grown
        self._tokens[self._count : end] = more
        self._count = end
        behind = self.tokens[len(self._hashes) * self._hashing.block_tokens :]
        if len(behind) >= self._hashing.block_tokens:
            self._hashes += self._hashing.chain(behind, self.extras, before=self._hashes)

    def hashes_of(self, tokens: int) -> list[bytes]:
        """Of the blocks of the first so many tokens, also of the last one, full or not."""
        full, rest = divmod(tokens, self._hashing.block_tokens)
        hashes = self._hashes[:full]
        if rest:
            part = self.tokens[tokens - rest : tokens]
            return [*hashes, self._hashing.partial(part, self.extras, before=hashes)]
        return hashes

    def fork(self, name: str) -> Request:
        """Another one with the same tokens so far."""
        twin = copy(self)
        twin.name = name
        twin._tokens, twin._hashes = self.tokens.copy(), list(self._hashes)
        return twin
