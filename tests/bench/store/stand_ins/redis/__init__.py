"""The calls of the package redis that are made, over a dictionary; no server is asked."""

from __future__ import annotations

from collections.abc import Mapping

from . import exceptions

__all__ = ["Redis", "exceptions"]


class Redis:
    def __init__(self, unix_socket_path: str) -> None:
        self._values: dict[str, bytes] = {}

    def ping(self) -> bool:
        return True

    def set(self, key: str, value: memoryview) -> bool:
        self._values[key] = bytes(value)
        return True

    def mset(self, values: Mapping[str, memoryview]) -> bool:
        self._values.update((key, bytes(value)) for key, value in values.items())
        return True

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def mget(self, keys: list[str]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def delete(self, *keys: str) -> int:
        return sum(self._values.pop(key, None) is not None for key in keys)

    def pipeline(self, transaction: bool) -> Pipeline:
        assert not transaction
        return Pipeline(self._values)

    def close(self) -> None:
        pass


class Pipeline:
    def __init__(self, values: dict[str, bytes]) -> None:
        self._values = values
        self._there: list[int] = []

    def exists(self, key: str) -> None:
        self._there.append(int(key in self._values))

    def execute(self) -> list[int]:
        return self._there

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
