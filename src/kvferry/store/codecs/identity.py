"""Digests over named fields, so that no two of different meaning are the same."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeAlias

__all__ = ["Field", "digest_of", "packed"]

Field: TypeAlias = tuple[str, bytes]


def packed(fields: Iterable[Field]) -> bytes:
    """| bytes of the name u64 | name | bytes of the value u64 | value | for each field."""
    parts = [part for name, value in fields for part in (name.encode(), value)]
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def digest_of(fields: Iterable[Field], size: int, purpose: bytes, key: bytes = b"") -> bytes:
    """BLAKE2b over the fields, told apart by its purpose (16 bytes at most) from all others."""
    return blake2b(packed(fields), digest_size=size, key=key, person=purpose).digest()
