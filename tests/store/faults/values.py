"""Values that say what they are: every byte follows from the key, the version and the size.

value   | check of the key u64 | version u64 | size u64 |  bytes of one long tape, from a place that
          24 bytes                                         key and version name ...
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

__all__ = ["LEAST", "value", "version_of"]

HEADER = struct.Struct("<QQQ")
LEAST = HEADER.size
LONGEST = 96 << 20
PERIOD = 65521  # prime, so that a block that lands elsewhere is seen

_tape = np.zeros(0, np.uint8)


def value(key: str, version: int, size: int) -> bytes:
    assert LEAST <= size <= LONGEST
    return HEADER.pack(_check(key), version, size) + bytes(_body(key, version, size))


def version_of(key: str, found: Any) -> int:
    """The version of which these bytes are the whole value. Raises AssertionError for others."""
    memory = memoryview(found)
    assert memory.nbytes >= LEAST, f"{key}: {memory.nbytes} bytes"
    check, version, size = HEADER.unpack_from(memory)
    assert check == _check(key), f"{key}: bytes of another key"
    assert size == memory.nbytes, f"{key}: {memory.nbytes} bytes of a value of {size}"
    right = np.frombuffer(memory, np.uint8, offset=LEAST) == _body(key, version, size)
    wrong = np.flatnonzero(~right)
    assert not len(wrong), f"{key}: {len(wrong)} of {size} bytes are wrong, from {wrong[0]} on"
    return int(version)


def _check(key: str) -> int:
    return zlib.crc32(key.encode())


def _body(key: str, version: int, size: int) -> Any:
    start = (_check(key) * 40503 + version * 7919) % PERIOD
    return _long(start + size)[start : start + size - LEAST]


def _long(size: int) -> Any:
    """A tape of at least so many bytes, no two parts of which are alike within a period."""
    global _tape
    if len(_tape) < size:
        period = np.random.default_rng(26100).integers(0, 256, PERIOD + 2, np.uint8)
        rows = -(-max(size, 1 << 20) // len(period))
        turns = np.arange(rows, dtype=np.uint8)[:, None]
        _tape = (np.tile(period, (rows, 1)) + turns).reshape(-1)
    return _tape
