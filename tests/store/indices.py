"""Every ledger with its index that a catalog can decide over, by capacity and entries in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kvferry._core import Index, Ledger, index_bytes
from kvferry.store.dict_index import DictIndex
from kvferry.store.dict_ledger import DictLedger

LINE = 64


class NativeLedger:
    """The native ledger over an index in memory of its own."""

    def __init__(self, capacity: int, entries_high: int) -> None:
        length = index_bytes(capacity)
        self._memory = np.zeros(length + LINE, np.uint8)
        address = self._memory.ctypes.data
        self._ledger = Ledger(Index(address + -address % LINE, length, 1), entries_high)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


def dict_ledger(capacity: int, entries_high: int) -> DictLedger:
    return DictLedger(DictIndex(capacity), entries_high)


LEDGERS: list[Callable[[int, int], Any]] = [dict_ledger, NativeLedger]
