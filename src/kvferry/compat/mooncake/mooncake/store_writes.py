"""Writes: of buffers, and from memory that is named by its address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvferry.errors import UsageError

from .replicate import ReplicateConfig
from .store_codes import FAILURES, apart, code_of, put
from .store_memory import Rows
from .store_plan import PLAIN, check, each_of, going
from .store_reads import Key, Reads

__all__ = ["Writes", "full"]


class Writes(Reads):
    """A value is stored whole or not at all. Of a key that is there the first value stays, and the
    code is 0. -600: a value has no bytes; -200: there is no room; see ReplicateConfig for what can
    be wanted of each."""

    def put(self, key: Key, value: Any, config: ReplicateConfig = PLAIN) -> int:
        """Store a buffer."""
        return self._one("put", key, value, config)

    def put_parts(self, key: Key, *args: Any, config: ReplicateConfig = PLAIN) -> int:
        """Store buffers, one after the other, as one value."""
        return self._one("put_parts", key, list(args), config)

    def put_from(
        self, key: Key, buffer_ptr: int, size: int, config: ReplicateConfig = PLAIN
    ) -> int:
        """Store what lies at an address."""
        try:
            value = self._client.memory.window(buffer_ptr, size)
        except FAILURES as error:
            return code_of("put_from", error)
        return self._one("put_from", key, value, config)

    def put_from_with_metadata(
        self,
        key: Key,
        buffer_ptr: int,
        metadata_buffer_ptr: int,
        size: int,
        metadata_size: int,
        config: ReplicateConfig = PLAIN,
    ) -> int:
        """Store what lies at two addresses as one value, the metadata first."""
        places = [(metadata_buffer_ptr, metadata_size), (buffer_ptr, size)]
        try:
            parts = [self._client.memory.window(*each) for each in places if each[1]]
        except FAILURES as error:
            return code_of("put_from_with_metadata", error)
        return self._one("put_from_with_metadata", key, parts, config)

    def put_batch(
        self, keys: Sequence[Key], values: Sequence[Any], config: ReplicateConfig = PLAIN
    ) -> int:
        """Store many: the code of the first that failed. Those before and after it are stored."""
        return self._many("put_batch", keys, values, config)

    def batch_put_from(
        self,
        keys: Sequence[Key],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        config: ReplicateConfig = PLAIN,
    ) -> list[int]:
        """Store what lies at addresses: a code for each."""
        try:
            check(config, len(keys))
        except FAILURES as error:
            return [code_of("batch_put_from", error)] * len(keys)
        return self._from(keys, buffer_ptrs, sizes, config)

    def batch_put_from_multi_buffers(
        self,
        keys: Sequence[Key],
        all_buffer_ptrs: Sequence[Sequence[int]],
        all_sizes: Sequence[Sequence[int]],
        config: ReplicateConfig = PLAIN,
    ) -> list[int]:
        """The same, each from several addresses, one after the other."""
        try:
            check(config, len(keys), gathered=True)
        except FAILURES as error:
            return [code_of("batch_put_from_multi_buffers", error)] * len(keys)
        return self._from(keys, all_buffer_ptrs, all_sizes, config)

    # ---- inside ----

    def _one(
        self, what: str, key: Key, value: Any, config: ReplicateConfig, *, replace: bool = False
    ) -> int:
        try:
            if config is PLAIN and key and not replace and type(value) is not list:
                client = self._client
                client.store.put(key, full(value))
                client.settle()
                return 0
            check(config, 1)
            return self._stored([key], [full(value)], config, replace)[0]
        except FAILURES as error:
            return code_of(what, error)

    def _many(
        self,
        what: str,
        keys: Sequence[Key],
        values: Sequence[Any],
        config: ReplicateConfig,
        *,
        replace: bool = False,
    ) -> int:
        try:
            check(config, len(keys))
            codes = self._stored(keys, [full(value) for value in values], config, replace)
        except FAILURES as error:
            return code_of(what, error)
        return next((code for code in codes if code), 0)

    def _from(
        self,
        keys: Sequence[Key],
        addresses: Rows,
        sizes: Rows,
        config: ReplicateConfig,
        replace: bool = False,
    ) -> list[int]:
        """A checked config. replace: what is there goes first."""
        try:
            pieces = self._client.memory.pieces(addresses, sizes)
            if not pieces.sizes.all():
                raise UsageError("a value has no bytes", cause="empty")
            return self._stored(keys, pieces, config, replace)
        except FAILURES as error:
            columns = keys, addresses, sizes, [each_of(config, at) for at in range(len(keys))]

            def again(key: Any, places: Any, lengths: Any, own: Any) -> list[int]:
                return self._from(key, places, lengths, own[0], replace)

            return apart("batch_put_from", error, again, *columns)

    def _stored(
        self, keys: Sequence[Key], values: Any, config: ReplicateConfig, replace: bool = False
    ) -> list[int]:
        """0 or a code for each."""
        client = self._client
        if not all(keys):
            raise UsageError("a key has at least one character", cause="no_key")
        if replace and len(keys) == len(values):
            client.store.remove_batch(keys, force=True)
        if config is PLAIN:
            codes = put(client.store.put_batch(keys, values))
        else:
            where = going(config, client.hostname)
            codes = put(client.store.put_batch(keys, values, **where))
            client.keeping.keep(client.store, keys, config, codes)
        if 0 in codes:
            client.settle()
        return codes


def full(value: Any) -> Any:
    """A buffer, or a list of them, with bytes in it. Raises UsageError (empty), TypeError for text
    and other things that are no buffers."""
    if isinstance(value, list):
        if not sum(memoryview(part).nbytes for part in value):
            raise UsageError("a value has no bytes", cause="empty")
    elif not memoryview(value).nbytes:
        raise UsageError("a value has no bytes", cause="empty")
    return value
