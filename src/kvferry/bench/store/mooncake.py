"""Mooncake's store, or ours under its name: the client owns the segment, a master of its own keeps
the metadata."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ..verify import Words
from .messages import Open
from .server import Server, find_program, free_port
from .subject import Key, Slots, Subject
from .tasks import Op

__all__ = ["Compat", "Mooncake"]

HOST = "127.0.0.1"
LOCAL_BUFFER = 64 << 20  # bytes
TREE = Path(__file__).parents[2] / "compat" / "mooncake"
MASTER = "from mooncake.commands.master import main; sys.exit(main())"


class Mooncake(Subject):
    """Values move straight between the segment and the side, which is registered."""

    def __init__(self, wanted: Open, side: Words) -> None:
        package = import_module("mooncake.store")
        port = free_port()
        master = [
            *self._program(),
            f"--rpc_port={port}",
            f"--rpc_address={HOST}",
            f"--metrics_port={free_port()}",
            f"--metrics_host={HOST}",
            "--enable_metric_reporting=false",
        ]
        self._server = Server(master, wanted.folder, partial(_answers, port))
        self._address = side.ctypes.data
        self._store = package.MooncakeDistributedStore()
        _check(
            self._store.setup(
                HOST, "P2PHANDSHAKE", wanted.pool, LOCAL_BUFFER, "tcp", "", f"{HOST}:{port}"
            )
        )
        _check(self._store.register_buffer(self._address, side.nbytes))

    def _program(self) -> list[str]:
        """That starts a master."""
        return [find_program("mooncake_master")]

    def call(self, op: Op, keys: list[Key], slots: Slots, block: int) -> Callable[[], Any]:
        addresses = [self._address + at * block for at in slots]
        return _CALLS[op](self._store, keys, addresses, [block] * len(slots))

    def good(self, op: Op, result: Any) -> int:
        return _GOOD[op](result)

    def remove(self, keys: list[Key]) -> None:
        self._store.batch_remove(keys, True)

    def close(self) -> None:
        with suppress(RuntimeError):
            self._store.close()
        self._server.close()


class Compat(Mooncake):
    """The package `mooncake` that is kvferry."""

    def __init__(self, wanted: Open, side: Words) -> None:
        sys.path.insert(0, str(TREE))
        super().__init__(wanted, side)

    def _program(self) -> list[str]:
        code = f"import sys; sys.path.insert(0, {str(TREE)!r}); {MASTER}"
        return [sys.executable, "-c", code]


Addresses = list[int]
Sizes = list[int]

_CALLS: dict[Op, Callable[[Any, list[Key], Addresses, Sizes], Callable[[], Any]]] = {
    Op.GET: lambda store, keys, at, sizes: partial(store.get_into, keys[0], at[0], sizes[0]),
    Op.GET_BATCH: lambda store, keys, at, sizes: partial(store.batch_get_into, keys, at, sizes),
    Op.EXISTS_BATCH: lambda store, keys, at, sizes: partial(store.batch_is_exist, keys),
    Op.PUT: lambda store, keys, at, sizes: partial(store.put_from, keys[0], at[0], sizes[0]),
    Op.PUT_BATCH: lambda store, keys, at, sizes: partial(store.batch_put_from, keys, at, sizes),
}


def _positive(codes: Sequence[int]) -> int:
    return sum(code > 0 for code in codes)


_GOOD: dict[Op, Callable[[Any], int]] = {
    Op.GET: lambda length: int(length > 0),
    Op.GET_BATCH: _positive,
    Op.EXISTS_BATCH: _positive,
    Op.PUT: lambda code: int(code == 0),
    Op.PUT_BATCH: lambda codes: sum(code == 0 for code in codes),
}


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"mooncake returned {code}")
