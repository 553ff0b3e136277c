"""Canonical CBOR of a block: an array of the parent's hash, the tokens, and extra keys or null.

A head is three bits of kind and a number in the shortest form that holds it, big-endian:

    kind  0 number | 1 negative, -1 - n | 2 bytes | 3 text | 4 array      f6 null
    n     in 5 bits below 24 | 18 u8 | 19 u16 | 1a u32

Source: RFC 8949, 3 and 4.2.
"""

from __future__ import annotations

from struct import pack

import numpy as np

from ...errors import UsageError
from .extras import Extra
from .tokens import Tokens, cut

__all__ = ["Cbor"]

NUMBER, NEGATIVE, BYTES, TEXT, ARRAY = range(5)
NULL = b"\xf6"


class Cbor:
    """How a block is written down before it is hashed. Pure."""

    def text(self, text: str) -> bytes:
        return written(text)

    def bodies(self, tokens: Tokens, block: int) -> list[bytes]:
        """The array of each block of tokens."""
        steps = [tokens < 24, tokens < 1 << 8, tokens < 1 << 16]
        widths = np.select(steps, [1, 2, 3], 5)
        rows = np.empty((len(tokens), 5), np.uint8)
        rows[:, 0] = np.select(steps, [tokens, np.int64(0x18), np.int64(0x19)], 0x1A)
        shifted = tokens << (8 * (5 - widths) % 32)  # its first byte behind the head
        rows[:, 1:] = shifted.astype(">u4").view(np.uint8).reshape(-1, 4)
        head = _head(ARRAY, block)
        return [head + each for each in cut(rows, widths, block)]

    def around(self, size: int, length: int, extra: Extra | None) -> tuple[bytes, bytes, bytes]:
        """What stands before the parent's hash, of so many bytes, between it and a body, of so
        many, and behind that. Of no tokens a body is empty."""
        between = b"" if length else _head(ARRAY, 0)
        behind = NULL if extra is None else written(extra)
        return _head(ARRAY, 3) + _head(BYTES, size), between, behind


def written(thing: Extra | str | bytes | int) -> bytes:
    if isinstance(thing, tuple):
        return _head(ARRAY, len(thing)) + b"".join(map(written, thing))
    if isinstance(thing, int):
        return _head(NUMBER, thing) if thing >= 0 else _head(NEGATIVE, -1 - thing)
    if isinstance(thing, bytes):
        return _head(BYTES, len(thing)) + thing
    raw = thing.encode()
    return _head(TEXT, len(raw)) + raw


def _head(kind: int, n: int) -> bytes:
    first = kind << 5
    if n < 24:
        return pack(">B", first | n)
    if n < 1 << 8:
        return pack(">BB", first | 0x18, n)
    if n < 1 << 16:
        return pack(">BH", first | 0x19, n)
    if n < 1 << 32:
        return pack(">BI", first | 0x1A, n)
    raise UsageError(f"{n} in an extra key", cause="extras")
