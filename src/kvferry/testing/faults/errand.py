"""What two engines of one process do while one call fails: each step, and once more when it failed.

A step that fails raises an error of the tree, has given back what it took, and the same engines do
it the next time.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from ...batch import Batch
from ...config import Options
from ...engine import Channel, Engine
from ...errors import Error
from ...memory import Region
from ..leaks import holdings

__all__ = ["Errand"]

SIZE = 256 << 10
BLOCK = 4096
PATIENCE = 10.0
GRACE = 2.0

# What a step that failed may not keep. Threads may stay for the next time.
KEPT = ("descriptor", "mapping", "file")


class Errand:
    """Opens, allocates, connects, writes, reads, notifies, gives back, closes; checks the bytes.

    failures  of steps, in their order, as text: an error keeps alive what its frames held
    """

    ours: Engine
    theirs: Engine
    pool: Region
    far: Region
    peer: Channel

    def __init__(self, path: str, options: Options) -> None:
        self.failures: list[str] = []
        self._path = path
        self._options = options

    def run(self) -> None:
        try:
            for step in STEPS:
                self._twice_if_needed(step)
        finally:
            for name in ("ours", "theirs"):
                if name in self.__dict__:
                    getattr(self, name).close()

    def _twice_if_needed(self, step: Callable[[Errand], None]) -> None:
        before = holdings()
        try:
            step(self)
            return
        except Error as error:
            self.failures.append(str(error))
        # What is looked up in vain may be announced meanwhile, and mapped.
        left = [] if step is Errand.look_up else _left(before)
        assert not left, f"{step.__name__} failed ({self.failures[-1]}) and kept {left}"
        step(self)

    # ---- the steps ----

    def open_target(self) -> None:
        self.theirs = Engine("127.0.0.1:0", options=self._options)

    def open_initiator(self) -> None:
        alone = self._path.startswith("loopback")
        self.ours = self.theirs if alone else Engine(options=self._options)

    def allocate_there(self) -> None:
        self.far = self.theirs.allocate("kv", SIZE)

    def allocate_here(self) -> None:
        self.pool = self.ours.allocate("pool", SIZE)

    def connect(self) -> None:
        self.peer = self.ours.connect(
            self.theirs.addresses[0], path=self._path, timeout=PATIENCE, streams=1, inline_below=0
        )

    def write(self) -> None:
        self._bytes(self.pool)[:] = 7
        self._transfer(self.peer.write)
        assert (self._bytes(self.far).reshape(-1, 2, BLOCK) == [[7], [0]]).all()

    def read(self) -> None:
        self._bytes(self.pool)[:] = 0
        self._transfer(self.peer.read)
        assert (self._bytes(self.pool).reshape(-1, 2, BLOCK) == [[7], [0]]).all()

    def allocate_late(self) -> None:
        self.theirs.allocate("late", BLOCK)

    def look_up(self) -> None:
        assert self._channel().regions["late"].length == BLOCK

    def notify(self) -> None:
        self._channel().notify("landed", b"", timeout=PATIENCE)
        assert self.theirs.notifications(PATIENCE)

    def give_back(self) -> None:
        with suppress(KeyError):
            self.theirs.unregister(self.theirs.regions["late"])

    def disconnect(self) -> None:
        self.peer.close()

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()

    # ---- inside ----

    def _channel(self) -> Channel:
        """The one there is; another when a failure has ended it."""
        if self.peer.closed:
            self.connect()
        return self.peer

    def _transfer(self, call: Callable[[Batch, float], object]) -> None:
        channel = self._channel()
        call = getattr(channel, call.__name__)
        ids = np.arange(0, SIZE // BLOCK, 2)
        call(Batch.blocks(self.pool, ids, channel.regions["kv"], ids, BLOCK), PATIENCE)

    def _bytes(self, region: Region) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        return np.frombuffer(region, np.uint8)


def _left(before: Counter[str]) -> list[str]:
    """What is held since then, once the peer has had time to notice as well."""
    deadline = time.monotonic() + GRACE
    while left := [each for each in holdings() - before if each.startswith(KEPT)]:
        if time.monotonic() >= deadline:
            break
        gc.collect()
        time.sleep(0.001)
    return left


STEPS = [
    Errand.open_target,
    Errand.open_initiator,
    Errand.allocate_there,
    Errand.allocate_here,
    Errand.connect,
    Errand.write,
    Errand.read,
    Errand.allocate_late,
    Errand.look_up,
    Errand.notify,
    Errand.give_back,
    Errand.disconnect,
    Errand.close,
]
