"""Values there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvferry.store.codecs import Codec

__all__ = ["bf16", "bytes_of", "floats", "read_back"]


def bytes_of(value: Any) -> memoryview:
    return memoryview(np.ascontiguousarray(value).tobytes())


def read_back(codec: Codec, stored: Any) -> bytes | None:
    opened = codec.open(stored)
    if opened is None:
        return None
    target = bytearray(opened.length)
    return bytes(target) if codec.decode(opened, memoryview(target)) else None


def bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Cut off, not rounded."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def floats(dtype: str, raw: bytes) -> NDArray[np.float64]:
    if dtype == "bfloat16":
        bits = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    return np.frombuffer(raw, dtype).astype(np.float64)
