"""The calls of mooncake.store that are made, over a dictionary."""

from __future__ import annotations

import ctypes
import os

FAULT = os.environ.get("STAND_IN_FAULT")


class MooncakeDistributedStore:
    def setup(
        self,
        host: str,
        metadata: str,
        segment: int,
        local: int,
        protocol: str,
        device: str,
        master: str,
    ) -> int:
        self._values: dict[str, bytes] = {}
        return 0 if (host, metadata, protocol) == ("127.0.0.1", "P2PHANDSHAKE", "tcp") else -1

    def register_buffer(self, address: int, size: int) -> int:
        return 0

    def put_from(self, key: str, address: int, size: int) -> int:
        value = bytearray(ctypes.string_at(address, size))
        value[0] ^= FAULT == "corrupt"
        self._values[key] = bytes(value)
        return -200 if FAULT == "full" else 0

    def batch_put_from(self, keys: list[str], addresses: list[int], sizes: list[int]) -> list[int]:
        return list(map(self.put_from, keys, addresses, sizes))

    def get_into(self, key: str, address: int, size: int) -> int:
        if key not in self._values:
            return -704
        ctypes.memmove(address, self._values[key], size)
        return size

    def batch_get_into(self, keys: list[str], addresses: list[int], sizes: list[int]) -> list[int]:
        return list(map(self.get_into, keys, addresses, sizes))

    def batch_is_exist(self, keys: list[str]) -> list[int]:
        return [int(key in self._values) for key in keys]

    def batch_remove(self, keys: list[str], force: bool) -> list[int]:
        assert force
        return [0 if self._values.pop(key, None) is not None else -704 for key in keys]

    def close(self) -> int:
        return 0
