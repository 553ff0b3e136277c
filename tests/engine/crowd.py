"""Many engines in one process, each with a channel to one target."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path

import kvferry as kf
from kvferry.testing import Parent

KIB = 1024


def resident() -> int:
    """KiB of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def serve(parent: Parent) -> None:
    """A target; asked for a number of seconds, tells how much of a core it used while idle."""
    with kf.Engine("127.0.0.1:0") as engine:
        engine.allocate("kv", 16 * KIB)
        parent.tell([engine.addresses[0], resident()])
        for seconds in parent:
            before = time.process_time()
            time.sleep(seconds)
            parent.tell([(time.process_time() - before) / seconds, resident()])


def connect_many(parent: Parent, address: str, count: int) -> int:
    """Tells what it holds before and after; then writes through each channel: how many live."""
    before = resident()
    with ExitStack() as open_:
        channels = []
        for _ in range(count):
            engine = open_.enter_context(kf.Engine())
            channels.append(engine.connect(address, timeout=60))
        parent.tell([before, resident(), len(os.listdir("/proc/self/fd"))])
        parent.hear(timeout=None)
        for number, channel in enumerate(channels):
            byte = bytes([number % 256])
            far = channel.regions["kv"]
            channel.write(kf.Batch.of(bytearray(byte), far, remote_offset=number % 16 * KIB))
            found = bytearray(1)
            channel.read(kf.Batch.of(found, far, remote_offset=number % 16 * KIB))
            assert found == byte
        return [channel.liveness is kf.Liveness.ALIVE for channel in channels].count(True)
