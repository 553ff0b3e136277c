"""Every index a catalog can decide over, by capacity."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvferry._core import Index, index_bytes
from kvferry.store.dict_index import DictIndex

LINE = 64


class NativeIndex:
    """The native index in memory of its own."""

    def __init__(self, capacity: int) -> None:
        length = index_bytes(capacity)
        self._memory = np.zeros(length + LINE, np.uint8)
        address = self._memory.ctypes.data
        self._index = Index(address + -address % LINE, length, 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


INDICES: list[Any] = [DictIndex, NativeIndex]
