"""Redis over a Unix socket, by its Python client; with hiredis where that is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ..verify import Words
from .messages import Open
from .server import Server, find_program
from .subject import Key, Slots, Subject, views
from .tasks import Op

__all__ = ["Redis"]


class Redis(Subject):
    """A server that keeps nothing on disk. Values that are read are copied to the side."""

    def __init__(self, wanted: Open, side: Words) -> None:
        package = import_module("redis")
        path = str(Path(wanted.folder) / "redis.sock")
        program = [find_program("redis-server"), "--port", "0", "--unixsocket", path]
        settings = ["--save", "", "--appendonly", "no", "--maxmemory-policy", "allkeys-lru"]
        client = package.Redis(unix_socket_path=path)

        def ready() -> bool:
            with suppress(package.exceptions.RedisError, OSError):
                return bool(client.ping())
            return False

        self._side = side
        self._client = client
        limit = ["--maxmemory", str(2 * wanted.pool)]
        self._server = Server([*program, *settings, *limit], wanted.folder, ready)

    def call(self, op: Op, keys: list[Key], slots: Slots, block: int) -> Callable[[], Any]:
        return partial(_CALLS[op], self._client, keys, views(self._side, slots, block))

    def good(self, op: Op, result: Any) -> int:
        return int(result)

    def remove(self, keys: list[Key]) -> None:
        self._client.delete(*keys)

    def close(self) -> None:
        self._client.close()
        self._server.close()


Buffers = Sequence[memoryview]


def _get(client: Any, keys: list[Key], outs: Buffers) -> int:
    value = client.get(keys[0])
    if value is None:
        return 0
    outs[0][:] = value
    return 1


def _get_batch(client: Any, keys: list[Key], outs: Buffers) -> int:
    found = 0
    for value, out in zip(client.mget(keys), outs, strict=True):
        if value is not None:
            out[:] = value
            found += 1
    return found


def _exists_batch(client: Any, keys: list[Key], outs: Buffers) -> int:
    with client.pipeline(transaction=False) as line:
        for key in keys:
            line.exists(key)
        return sum(line.execute())


def _put(client: Any, keys: list[Key], outs: Buffers) -> int:
    return int(client.set(keys[0], outs[0]))


def _put_batch(client: Any, keys: list[Key], outs: Buffers) -> int:
    client.mset(dict(zip(keys, outs, strict=True)))
    return len(keys)


_CALLS: dict[Op, Callable[[Any, list[Key], Buffers], int]] = {
    Op.GET: _get,
    Op.GET_BATCH: _get_batch,
    Op.EXISTS_BATCH: _exists_batch,
    Op.PUT: _put,
    Op.PUT_BATCH: _put_batch,
}
