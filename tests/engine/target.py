"""A target engine in a process of its own, for tests to talk to."""

from __future__ import annotations

import ctypes
import zlib
from typing import Any

import numpy as np

import kvferry as kf
from kvferry.testing import Parent
from tests.engine.window import window


def serve(parent: Parent, address: str = "127.0.0.1:0") -> None:
    """Carries out what the parent asks, until the parent hangs up."""
    with kf.Engine(address) as engine:
        engine.serve("echo", lambda request: request)
        engine.serve("fail", fail)
        parent.tell(engine.addresses[0])
        for verb, *arguments in parent:
            parent.tell(VERBS[verb](engine, *arguments))


def fail(request: bytes) -> bytes:
    raise RuntimeError("the handler failed on purpose")


def allocate(engine: kf.Engine, name: str, size: int, readonly: bool = False) -> int:
    return engine.allocate(name, size, readonly=readonly).address


def register(engine: kf.Engine, name: str, size: int, readonly: bool = False) -> int:
    """A buffer of this process, filled with 1."""
    buffer = np.full(size, 1, np.uint8)
    buffer.flags.writeable = not readonly
    return engine.register(name, buffer).address


def unregister(engine: kf.Engine, name: str) -> None:
    engine.unregister(engine.regions[name])


def fill(engine: kf.Engine, name: str, seed: int) -> None:
    region = engine.regions[name]
    window(region)[:] = pattern(seed, region.length)


def digest(engine: kf.Engine, name: str, start: int, length: int) -> int:
    return zlib.crc32(engine.regions[name].load(length, start))


def notifications(engine: kf.Engine, timeout: float) -> list[Any]:
    return [(each.peer, each.name, each.message.decode()) for each in engine.notifications(timeout)]


def pattern(seed: int, length: int) -> np.ndarray[Any, Any]:
    """Bytes that no other seed gives."""
    return np.random.default_rng(seed).integers(0, 256, length, np.uint8)


def connect_and_wait(parent: Parent, address: str) -> None:
    """Holds a channel to `address` until the parent hangs up."""
    with kf.Engine() as engine:
        parent.tell(str(engine.connect(address)))
        for _ in parent:
            pass


def busy(parent: Parent, size: int) -> None:
    """A target that computes under the GIL for as many seconds as it is told."""
    with kf.Engine("127.0.0.1:0") as engine:
        engine.allocate("kv", size)
        parent.tell(engine.addresses[0])
        for pause in parent:
            parent.tell("now")
            ctypes.PyDLL(None).usleep(int(pause * 1e6))  # which keeps the GIL
            parent.tell("awake")


VERBS = {f.__name__: f for f in (allocate, register, unregister, fill, digest, notifications)}
