"""Engines in processes of their own, with beats of 0.3 s and death after 3 s."""

from __future__ import annotations

import ctypes
import dataclasses
import time

import numpy as np
import numpy.typing as npt

import kvferry as kf
from kvferry import config
from kvferry.testing import Parent
from tests.engine.window import window

MIB = 1 << 20
BEAT_SECONDS, SUSPECT_AFTER, DEAD_AFTER = 0.3, 1.0, 3.0


def quick() -> kf.Options:
    """Beats of 0.3 s, death after 3 s."""
    return dataclasses.replace(
        config.from_environment(),
        beat=BEAT_SECONDS,
        suspect_after=SUSPECT_AFTER,
        dead_after=DEAD_AFTER,
        quiet_grace=2.0,
        call_timeout=2.0,
    )


def pattern(length: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 256, length, np.uint8)


def serve_quickly(parent: Parent) -> None:
    """A target; told a number of seconds, it keeps its interpreter for that long."""
    with kf.Engine("127.0.0.1:0", options=quick()) as engine:
        region = engine.allocate("kv", MIB)
        parent.tell(engine.addresses[0])
        for seconds in parent:
            parent.tell("now")
            ctypes.PyDLL(None).usleep(int(seconds * 1e6))
            parent.tell([len(engine._front._inbounds), region.load(4).hex()])


def write_then_hold(parent: Parent, address: str, seconds: float) -> str:
    """An initiator that keeps its interpreter, then goes on over the channel that it had."""
    with kf.Engine(options=quick()) as engine:
        pool = engine.allocate("pool", MIB)
        peer = engine.connect(address)
        parent.tell("now")
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))
        window(pool)[:] = pattern(MIB)
        peer.write(kf.Batch.of(pool, peer.regions["kv"]), timeout=5)
        return peer.liveness.value


def register_for(parent: Parent, address: str, seconds: float) -> str:
    """Registers and takes away memory for so long, then writes over the channel that it had."""
    with kf.Engine(options=quick()) as engine:
        peer = engine.connect(address)
        parent.tell("now")
        end = time.monotonic() + seconds
        buffer = np.zeros(64 * MIB, np.uint8)
        while time.monotonic() < end:
            engine.unregister(engine.allocate("kv", 64 * MIB))
            engine.unregister(engine.register("buffer", buffer))
        peer.write(kf.Batch.of(np.ones(MIB, np.uint8), peer.regions["other"]), timeout=5)
        return peer.liveness.value
