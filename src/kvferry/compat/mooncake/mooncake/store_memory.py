"""The memory that a store may read and write by address."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

from kvferry._core import Spans
from kvferry.errors import UsageError
from kvferry.memory import memory_at
from kvferry.store import Pieces

if TYPE_CHECKING:
    from .inner import InnerTransferEngine

__all__ = ["Memory", "Rows"]

# Of each value where it is, or where its pieces are; and as many lengths.
Rows: TypeAlias = Sequence[int] | Sequence[Sequence[int]]


class Memory:
    """Ranges that were registered here or, where an engine was lent, there. Thread-safe.

    What is not registered is looked for in the process's map, which takes some time, and may be
    used where it is mapped. Who registered a range keeps it mapped.

    spans  what is registered
    """

    def __init__(self, engine: InnerTransferEngine | None = None) -> None:
        self.spans = Spans() if engine is None else engine.spans
        self._lock = threading.Lock()
        self._own: dict[int, int] = {}

    def register(self, address: int, length: int) -> None:
        """Raises UsageError for what is not mapped to be written, and for what overlaps a range
        that was registered here."""
        address, length = index(address), index(length)
        if memory_at(address, length).readonly:
            raise UsageError("the memory may only be read", cause="read_only")
        with self._lock:
            for begin, size in self._own.items():
                if address < begin + size and begin < address + length:
                    raise UsageError(f"{address:#x} is registered", cause="overlap")
            self.spans.add(address, length)
            self._own[address] = length

    def unregister(self, address: int) -> None:
        """Raises UsageError where `register` was not called."""
        with self._lock:
            if self._own.pop(index(address), None) is None:
                raise UsageError(f"nothing is registered at {address:#x}", cause="unknown_address")
            self.spans.drop(address)

    def close(self) -> None:
        """Nothing is registered here any more."""
        for address in list(self._own):
            self.unregister(address)

    def window(self, address: int, length: int) -> Any:
        """The bytes there, as a buffer. Raises UsageError where not all of it is mapped."""
        address, length = index(address), index(length)
        try:
            return self.spans.window(address, length)
        except LookupError:
            return memory_at(address, length)

    def pieces(self, addresses: Rows, lengths: Rows, *, writable: bool = False) -> Pieces:
        """The same of many, a row for each value. Raises UsageError with the row that is not
        mapped, or must be and may not be written; ValueError for rows of unequal lengths."""
        try:
            return Pieces(*self.spans.pieces(addresses, lengths))
        except LookupError:
            return Pieces.of(self._mapped(addresses, lengths), writable=writable)

    def _mapped(self, addresses: Rows, lengths: Rows) -> list[list[Any]]:
        rows = []
        for at, (places, sizes) in enumerate(zip(addresses, lengths, strict=True)):
            try:
                rows.append([self.window(*each) for each in _pairs(places, sizes) if each[1]])
            except UsageError as error:
                error.index = at
                raise
        return rows


def _pairs(places: Any, sizes: Any) -> list[tuple[int, int]]:
    if isinstance(places, Sequence):
        return list(zip(places, sizes, strict=True))
    return [(places, sizes)]
