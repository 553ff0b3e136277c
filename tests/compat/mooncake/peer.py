"""A process with a TransferEngine and two arrays: what the tests talk to."""

from __future__ import annotations

import os
import signal
from typing import Any

from kvferry.testing import Parent

MIB = 1 << 20


def serve(parent: Parent, hostname: str, metadata: str, size: int) -> None:
    """Does what it is asked, a word at a time, until the parent hangs up."""
    import numpy as np
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    code = engine.initialize(hostname, metadata, "rdma", "mlx5_0")
    registered = np.zeros(size, np.uint8)
    later = np.full(size, 9, np.uint8)
    at = registered.ctypes.data
    code = code or engine.register_memory(at, size)
    managed = engine.allocate_managed_buffer(size) if code == 0 else 0
    parent.tell(
        {
            "code": code,
            "port": engine.get_rpc_port(),
            "registered": at,
            "managed": managed,
            "later": later.ctypes.data,
        }
    )
    for word in parent:
        parent.tell(_do(engine, word, registered, later))


def _do(engine: Any, word: str, registered: Any, later: Any) -> Any:
    if word == "sum":
        return int(registered.sum(dtype="u8"))
    if word == "bytes":
        return registered[:64].tolist()
    if word.startswith("fill "):
        registered[:] = int(word.removeprefix("fill "))
        return None
    if word == "register later":
        return engine.register_memory(later.ctypes.data, later.nbytes)
    if word.startswith("managed "):
        return list(engine.read_bytes_from_buffer(int(word.removeprefix("managed ")), 64))
    if word == "notifies":
        return [[each.name, each.msg] for each in engine.get_notifies()]
    raise AssertionError(word)


def forking(parent: Parent, url: str) -> list[int]:
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    assert engine.initialize("127.0.0.1:7005", url, "tcp", "") == 0
    lock = engine.get_engine().slabs._lock
    lock.acquire()  # as by another thread
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = engine.transfer_sync_write("127.0.0.1:7005", 1, 1, 1)
        code -= engine.allocate_managed_buffer(4096)
        del engine
        os._exit(-code)
    lock.release()
    _, status = os.waitpid(child, 0)
    return [os.waitstatus_to_exitcode(status), engine.send_probe("127.0.0.1:7005")]
