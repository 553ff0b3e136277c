"""Every path at once, a thread each, and something ends amid it: no hang, stray byte or leak."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import kvferry as kf
from kvferry.testing import Child

from .target import serve
from .test_paths import PATHS
from .window import window

MIB = 1 << 20
SHARE = 2 * MIB
SIZE = SHARE * len(PATHS)
PATIENCE = 20.0


class Storm:
    """A thread a channel, each with a part of the region of its own, until its first error."""

    def __init__(self, pool: kf.Region, channels: list[kf.Channel]) -> None:
        self.errors: dict[str, kf.Error] = {}
        self.rounds = [0] * len(channels)
        self.channels = channels
        self._threads = [
            threading.Thread(target=self._run, args=(pool, index, channel))
            for index, channel in enumerate(channels)
        ]
        for thread in self._threads:
            thread.start()
        deadline = time.monotonic() + PATIENCE
        while min(self.rounds) < 2:
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.001)

    def _run(self, pool: kf.Region, index: int, channel: kf.Channel) -> None:
        random = np.random.default_rng(index)
        remote = channel.regions["kv"]
        here = window(pool)[index * SHARE : (index + 1) * SHARE]
        try:
            while True:
                size = int(random.choice([4096, SHARE // 4, SHARE]))
                here[:] = self.rounds[index] % 250 + 1
                batch = kf.Batch.of(
                    pool,
                    remote,
                    local_offset=index * SHARE,
                    remote_offset=index * SHARE,
                    length=size,
                )
                channel.write(batch, timeout=PATIENCE)
                here[:] = 0
                channel.read(batch, timeout=PATIENCE)
                assert (here[:size] == self.rounds[index] % 250 + 1).all()
                self.rounds[index] += 1
        except kf.Error as error:
            self.errors[str(channel.path)] = error

    def close(self) -> None:
        for channel in self.channels:
            channel.close()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads)


# What happens -> what every thread may be told.
ENDS: dict[str, tuple[type[kf.Error], ...]] = {
    "the peer is killed": (kf.PeerError,),
    "the channels are closed": (kf.ClosedError,),
    "the engine is closed": (kf.ClosedError,),
    "the region is taken away there": (kf.ClosedError,),
    "the region is taken away here": (kf.ClosedError,),
}


@pytest.mark.parametrize("what", ENDS)
def test_amid_transfers_over_every_path(spawn: Callable[..., Child], what: str) -> None:
    target, other = spawn(serve), spawn(serve)
    addresses = [child.hear() for child in (target, other)]
    for child in (target, other):
        child.ask(["allocate", "kv", SIZE])
    with kf.Engine() as engine, kf.Engine() as neighbour:
        pool, theirs = (each.allocate("pool", SIZE) for each in (engine, neighbour))
        storm = Storm(pool, [engine.connect(addresses[0], path=path) for path in PATHS])
        calm = [neighbour.connect(addresses[1], path=path) for path in PATHS]
        ends: dict[str, Callable[[], object]] = {
            "the peer is killed": target.kill,
            "the channels are closed": storm.close,
            "the engine is closed": engine.close,
            "the region is taken away there": lambda: target.ask(["unregister", "kv"]),
            "the region is taken away here": lambda: engine.unregister(pool),
        }
        ends[what]()
        storm.end()
        assert set(storm.errors) == set(PATHS)
        for error in storm.errors.values():
            assert isinstance(error, ENDS[what]), repr(error)
        if what in ("the channels are closed", "the engine is closed"):
            settled = target.ask(["digest", "kv", 0, SIZE])
            assert target.ask(["digest", "kv", 0, SIZE]) == settled
        for channel in calm:
            channel.write(kf.Batch.of(theirs, channel.regions["kv"]), timeout=PATIENCE)
