"""A store of this process alone, on which the verbs of tensors stand in their tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvferry.errors import UsageError
from kvferry.memory import memory_at

ABSENT, REFUSED = -704, -600


class Bytes:
    """The verbs of bytes that tensors need, over a dict; `config` of the last write is kept."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.config: Any = None

    def put_parts(self, key: str, *parts: Any, config: Any = None) -> int:
        self.config = config
        self.objects.setdefault(key, _joined(parts))
        return 0

    def upsert_parts(self, key: str, *parts: Any, config: Any = None) -> int:
        self.objects[key] = _joined(parts)
        return 0

    def batch_put_from(self, keys: list[str], places: list[int], sizes: list[int]) -> list[int]:
        rows = zip(keys, places, sizes, strict=True)
        return [self.put_parts(key, memory_at(at, size)) for key, at, size in rows]

    def batch_upsert_from(self, keys: list[str], places: list[int], sizes: list[int]) -> list[int]:
        rows = zip(keys, places, sizes, strict=True)
        return [self.upsert_parts(key, memory_at(at, size)) for key, at, size in rows]

    def batch_get_into(self, keys: list[str], places: list[int], sizes: list[int]) -> list[int]:
        return [self._get_into(*row) for row in zip(keys, places, sizes, strict=True)]

    def batch_get_buffer(self, keys: list[str]) -> list[bytes | None]:
        """What was stored itself, which cannot be written."""
        return [self.objects.get(key) for key in keys]

    def _get_into(self, key: str, address: int, size: int) -> int:
        value = self.objects.get(key)
        if value is None:
            return ABSENT
        if len(value) > size:
            return REFUSED
        try:
            memory_at(address, size)[: len(value)] = value
        except UsageError:
            return REFUSED
        return len(value)


class Memory:
    """Some bytes at an address, filled with sevens."""

    def __init__(self, size: int = 1 << 14) -> None:
        self.bytes = np.full(size, 7, np.uint8)
        self.at = self.bytes.ctypes.data

    @property
    def untouched(self) -> bool:
        return bool((self.bytes == 7).all())


def _joined(parts: Any) -> bytes:
    return b"".join(bytes(memoryview(part).cast("B")) for part in parts)
