"""Writes that take the place of what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .replicate import ReplicateConfig
from .store_codes import FAILURES, code_of
from .store_plan import PLAIN, check
from .store_reads import Key
from .store_writes import Writes

__all__ = ["Upserts"]


class Upserts(Writes):
    """As the same write after a removal that leases do not hold up. Who reads in between misses
    the key; when there is no room for the new value the old one is gone, too."""

    def upsert(self, key: Key, value: Any, config: ReplicateConfig = PLAIN) -> int:
        """As put."""
        return self._one("upsert", key, value, config, replace=True)

    def upsert_parts(self, key: Key, *args: Any, config: ReplicateConfig = PLAIN) -> int:
        """As put_parts."""
        return self._one("upsert_parts", key, list(args), config, replace=True)

    def upsert_batch(
        self, keys: Sequence[Key], values: Sequence[Any], config: ReplicateConfig = PLAIN
    ) -> int:
        """As put_batch."""
        return self._many("upsert_batch", keys, values, config, replace=True)

    def upsert_from(
        self, key: Key, buffer_ptr: int, size: int, config: ReplicateConfig = PLAIN
    ) -> int:
        """As put_from."""
        return self.batch_upsert_from([key], [buffer_ptr], [size], config)[0]

    def batch_upsert_from(
        self,
        keys: Sequence[Key],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        config: ReplicateConfig = PLAIN,
    ) -> list[int]:
        """As batch_put_from."""
        try:
            check(config, len(keys))
        except FAILURES as error:
            return [code_of("batch_upsert_from", error)] * len(keys)
        return self._from(keys, buffer_ptrs, sizes, config, replace=True)
