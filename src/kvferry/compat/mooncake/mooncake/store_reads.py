"""Reads: by copy, and into memory that is named by its address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .store_base import Base
from .store_buffer import NOTHING, BufferHandle, handles
from .store_codes import FAILURES, Code, apart, code_of, lost, read
from .store_memory import Rows

__all__ = ["Key", "Reads"]

Key = str | bytes

MISSING = int(Code.OBJECT_NOT_FOUND)

# Where no node is, nothing is.
MISSES = {"no_node": Code.OBJECT_NOT_FOUND}
NOWHERE = {"no_node": Code.OK}


class Reads(Base):
    """What is not there is no failure of a batch: every key has a result of its own."""

    def get(self, key: Key, /) -> bytes:
        """A copy of the value; b"" where there is none, or on a failure."""
        try:
            value = self._client.store.get(key)
        except FAILURES as error:
            return lost("get", error, b"")
        return b"" if value is None else value

    def get_batch(self, keys: Sequence[Key], /) -> list[bytes]:
        """The same for each; [b""] on a failure."""
        try:
            return [value or b"" for value in self._client.store.get_batch(keys)]
        except FAILURES as error:
            return lost("get_batch", error, [b""])

    def get_buffer(self, key: Key, /) -> BufferHandle | None:
        """A copy of the value that knows its address; None where there is none, or on a failure."""
        return self.batch_get_buffer([key])[0]

    def batch_get_buffer(self, keys: Sequence[Key], /) -> list[BufferHandle | None]:
        """The same for each."""
        try:
            return handles(self._client.store, keys)
        except FAILURES as error:
            return lost("batch_get_buffer", error, [None] * len(keys))

    def get_into(self, key: Key, buffer_ptr: int, size: int) -> int:
        """Copy the value to an address: its bytes. -600: `size` are too few, or are not mapped."""
        client = self._client
        try:
            try:  # as few steps as can be: this takes hardly longer than the read
                window = client.memory.spans.window(buffer_ptr, size)
            except LookupError:
                window = client.memory.window(buffer_ptr, size)
            got: int | None = client.store.get_into(key, window)
        except FAILURES as error:
            return code_of("get_into", error, MISSES)
        return MISSING if got is None else got

    def batch_get_into(
        self, keys: Sequence[Key], buffer_ptrs: Sequence[int], sizes: Sequence[int]
    ) -> list[int]:
        """The same for each."""
        return self._into(keys, buffer_ptrs, sizes)

    def batch_get_into_multi_buffers(
        self,
        keys: Sequence[Key],
        all_buffer_ptrs: Sequence[Sequence[int]],
        all_sizes: Sequence[Sequence[int]],
        prefer_alloc_in_same_node: bool = False,
    ) -> list[int]:
        """The same, each to several addresses, one filled after the other. They may have room for
        more than the value."""
        return self._into(keys, all_buffer_ptrs, all_sizes)

    def _into(self, keys: Sequence[Key], addresses: Rows, sizes: Rows) -> list[int]:
        client = self._client
        try:
            pieces = client.memory.pieces(addresses, sizes, writable=True)
            return read(client.store.get_batch_into(keys, pieces))
        except FAILURES as error:
            return apart("batch_get_into", error, self._into, keys, addresses, sizes, causes=MISSES)

    def is_exist(self, key: Key, /) -> int:
        """1: it is there, and stays for the master's lease; 0: it is not, or nobody could tell."""
        try:
            return int(self._client.store.exists(key, lease=self._client.settings.keeping))
        except FAILURES as error:
            return lost("is_exist", error, 0)

    def batch_is_exist(self, keys: Sequence[Key]) -> list[int]:
        """1: it is there, and stays for the master's lease; 0: it is not; below 0: nobody could
        tell."""
        try:
            client = self._client
            found = client.store.exists_batch(keys, lease=client.settings.keeping)
        except FAILURES as error:
            code = code_of("batch_is_exist", error, NOWHERE)
            return [code] * len(keys)
        there: list[int] = found.view("i1").tolist()
        return there

    def get_size(self, key: Key, /) -> int:
        """Bytes of the value."""
        return self._sizes([key])[0]

    def _sizes(self, keys: Sequence[Key]) -> list[int]:
        """Bytes of each value, or a code."""
        try:
            results: Any = self._client.store.get_batch_into(keys, [NOTHING] * len(keys))
        except FAILURES as error:
            return [code_of("get_size", error, MISSES)] * len(keys)
        return [
            length or code
            for length, code in zip(results.lengths.tolist(), read(results), strict=True)
        ]
