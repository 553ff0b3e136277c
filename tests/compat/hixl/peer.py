"""An engine in a process of its own, for tests to talk to."""

from __future__ import annotations

import ctypes
import os
import signal
import zlib
from typing import Any

import hixl
import numpy as np

from kvferry.testing import Parent


def serve(parent: Parent) -> None:
    """Carries out what the parent asks, until the parent hangs up."""
    engine = hixl.Hixl()
    for verb, *arguments in parent:
        parent.tell(VERBS[verb](engine, *arguments))
    engine.finalize()


def initialize(engine: hixl.Hixl, name: str, options: dict[str, str]) -> int:
    return engine.initialize(name, options)


def malloc(engine: hixl.Hixl, size: int, seed: int) -> tuple[int, int]:
    """Address and handle of registered memory of its own, filled with a pattern."""
    status, address = engine.malloc_mem(hixl.MEM_HOST, size)
    assert status == hixl.SUCCESS
    view(address, size)[:] = pattern(seed, size)
    return address, register(engine, address, size)


def foreign(engine: hixl.Hixl, size: int, seed: int) -> tuple[int, int]:
    """The same in a buffer of the program's."""
    buffer = pattern(seed, size)
    KEPT.append(buffer)
    return buffer.ctypes.data, register(engine, buffer.ctypes.data, size)


def register(engine: hixl.Hixl, address: int, size: int) -> int:
    status, handle = engine.register_mem(hixl.MemDesc(address, size), hixl.MEM_HOST)
    assert status == hixl.SUCCESS
    return handle


def digest(engine: hixl.Hixl, address: int, size: int) -> int:
    return zlib.crc32(view(address, size))


def fork(engine: hixl.Hixl, name: str) -> list[int]:
    """What a forked child is told, whose parent's threads held a lock of the engine."""
    lock = engine._session.pool._changed
    lock.acquire()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        told = [engine.connect(name), engine.get_async_connect_status(name)[0]]
        engine.finalize()
        told.append(engine.initialize("127.0.0.1"))
        told.append(engine.connect(name))
        os._exit(0 if told == [hixl.FAILED, hixl.FAILED, hixl.SUCCESS, hixl.SUCCESS] else 1)
    lock.release()
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), engine.connect(name)]


def finalize(engine: hixl.Hixl) -> None:
    engine.finalize()


def view(address: int, size: int) -> np.ndarray[Any, Any]:
    return np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)


def pattern(seed: int, size: int) -> np.ndarray[Any, Any]:
    """Bytes that no other seed gives."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


KEPT: list[Any] = []
VERBS = {f.__name__: f for f in (initialize, malloc, foreign, digest, fork, finalize)}
