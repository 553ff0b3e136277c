"""Hashes of blocks, each with all that came before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from .extras import Extra, Extras
from .forms import form_of
from .tokens import tokens_of

__all__ = ["BLOCK_TOKENS_MOST", "PrefixHash"]

BLOCK_TOKENS_MOST = 8192  # which any form writes down in one frame

PLAIN = Extras()


class PrefixHash:
    """How prefixes of requests are named: equal hashes, equal KV. Thread-safe.

        hash of block i = H(hash of block i - 1, its tokens, its extra keys)

    block_tokens  tokens of a block
    form          sha256, sha256_cbor, xxhash, xxhash_cbor or pages, see forms.py
    seed          of the first block's parent. None: that of vLLM with SHA-256; xxhash has none
    identity      of model and layout, see LayoutRecord.identity. b"": the hashes are those that
                  vLLM or SGLang make, byte for byte, which say nothing about either

    Raises UsageError (block_tokens, form, seed), and Unsupported where a library is missing.
    """

    def __init__(
        self,
        block_tokens: int,
        form: str = "sha256",
        *,
        seed: str | None = None,
        identity: bytes = b"",
    ) -> None:
        if not isinstance(block_tokens, int) or not 0 < block_tokens <= BLOCK_TOKENS_MOST:
            raise UsageError(f"blocks of {block_tokens!r} tokens", cause="block_tokens")
        self.block_tokens = block_tokens
        self.form = form
        self._form = form_of(form)
        self._seed = seed
        self._identity = bytes(identity)
        self._root = self._form.root(seed, self._identity, PLAIN)

    def root(self, extras: Extras = PLAIN) -> bytes:
        """The parent of the first block."""
        if extras.plain:
            return self._root
        return self._form.root(self._seed, self._identity, extras)

    def chain(
        self,
        tokens: Sequence[int] | NDArray[np.integer[Any]],
        extras: Extras = PLAIN,
        *,
        before: Sequence[bytes] = (),
    ) -> list[bytes]:
        """Of each full block of `tokens`, which go on where blocks with the hashes `before` end.
        Raises UsageError (tokens, extras)."""
        size, form = self.block_tokens, self._form
        array = tokens_of(tokens)
        full = len(array) // size
        if not full:
            return []
        bodies = form.bodies(array[: full * size], size)
        parent = before[-1] if before else self.root(extras)
        return form.chain(parent, bodies, self._extra(extras, len(before) * size, size))

    def partial(
        self,
        tokens: Sequence[int] | NDArray[np.integer[Any]],
        extras: Extras = PLAIN,
        *,
        before: Sequence[bytes] = (),
    ) -> bytes:
        """Of one block that is not full yet, behind those with the hashes `before`."""
        array = tokens_of(tokens)
        if not 0 < len(array) < self.block_tokens:
            raise UsageError(f"{len(array)} tokens are no part of a block", cause="tokens")
        bodies = self._form.bodies(array, len(array))
        parent = before[-1] if before else self.root(extras)
        extra = self._extra(extras, len(before) * self.block_tokens, len(array))
        return self._form.chain(parent, bodies, extra)[0]

    def _extra(self, extras: Extras, start: int, size: int) -> Iterator[Extra | None]:
        """Of one block after the other."""
        if extras.plain:
            return repeat(None)
        return (self._form.extra(extras, at, at + size) for at in count(start, size))
