"""A master and a client in processes of their own, which do what the tests tell them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kvferry.testing import Parent

TREE = Path(__file__).parents[4] / "src/kvferry/compat/mooncake"

MIB = 1 << 20
SIZE = 16 * MIB
BLOCK = 4096


def master(parent: Parent) -> None:
    """Until the parent hangs up: a directory that keeps names, at the address it tells."""
    from kvferry import Engine
    from kvferry.store.directory import Service

    with Engine("127.0.0.1:0") as engine:
        service = Service(engine, names=True)
        parent.tell(engine.addresses[0])
        for _ in parent:
            pass
        service.close()


def client(parent: Parent, address: str, size: int, tenant: str = "default") -> None:
    """[method, arguments...] -> what it returns. Bytes go and come as lists of numbers behind the
    word "bytes"; "memory" is the address of a MiB of the numbers 0 to 255 again and again."""
    sys.path.insert(0, str(TREE))
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    memory = np.arange(MIB, dtype=np.uint64).astype(np.uint8)
    code = store.setup("127.0.0.1", "P2PHANDSHAKE", size, MIB, "tcp", "", address, tenant_id=tenant)
    code = code or store.register_buffer(memory.ctypes.data, MIB)
    parent.tell({"code": code, "name": store.get_hostname(), "memory": memory.ctypes.data})
    for name, *arguments in parent:
        parent.tell(plain(getattr(store, name)(*map(full, arguments))))
    store.close()


def full(argument: Any) -> Any:
    if isinstance(argument, list) and argument[:1] == ["bytes"]:
        return bytes(argument[1])
    return argument


def plain(result: Any) -> Any:
    if isinstance(result, bytes):
        return list(result)
    if isinstance(result, list):
        return [plain(each) for each in result]
    return result


def made(address: str, size: int = SIZE, **more: Any) -> Any:
    """A store in this process."""
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    code = store.setup("127.0.0.1", "P2PHANDSHAKE", size, MIB, "tcp", "", address, **more)
    assert code == 0
    return store


def until(true: Callable[[], Any]) -> None:
    """What one process stored others find once its node has told the master."""
    deadline = time.monotonic() + 15
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def forking(parent: Parent, address: str) -> list[Any]:
    """What a child of a client's process reads, how it ends, and how its parent closes."""
    user, owner = made(address, 0), made(address)
    assert owner.put("forked", b"abc") == 0
    until(lambda: user.get("forked") == b"abc")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, user.get("forked") or b"nothing")
        os._exit(3)
    _, status = os.waitpid(pid, 0)
    said = os.read(read, 100).decode()
    return [owner.close() or user.close(), os.waitstatus_to_exitcode(status), said]
