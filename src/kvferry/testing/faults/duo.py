"""Two engines of one process with a channel between them, for faults that end no process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from ..._core import CopyEngines
from ...batch import Batch
from ...config import Options, from_environment
from ...engine import Channel, Engine
from ...memory import Region
from .census import BLOCK, SIZE, Bytes

__all__ = ["Duo", "duo", "options"]


def options() -> Options:
    """Of an engine whose patience is short, because a scenario waits for it often."""
    return replace(
        from_environment(), quiet_grace=0.3, call_timeout=1.0, copy_engines=2, bounce="4:1"
    )


@dataclass
class Duo:
    """Who connects, who was connected to, and a region of SIZE bytes at either."""

    ours: Engine
    theirs: Engine
    path: str
    peer: Channel
    pool: Region
    far: Region

    def connect(self) -> Channel:
        return connect(self.ours, self.theirs, self.path)

    def batch(self, begin: int, end: int) -> Batch:
        """Every second block from `begin` on."""
        ids = np.arange(begin, end, 2)
        return Batch.blocks(self.pool, ids, self.peer.regions["kv"], ids, BLOCK)

    def here(self) -> Bytes:
        return np.frombuffer(self.pool, np.uint8)

    def there(self) -> Bytes:
        return np.frombuffer(self.far, np.uint8)

    def hold(self, held: bool, passing: int = 0) -> None:
        """Copies stand still in their chunks; so many go through before."""
        for each in self._copies():
            each.hold(held, passing)

    @property
    def held(self) -> int:
        return sum(each.held for each in self._copies())

    def _copies(self) -> tuple[CopyEngines, ...]:
        return (self.ours._copies, self.ours._tcp._wires.engines)


def connect(ours: Engine, theirs: Engine, path: str) -> Channel:
    return ours.connect(theirs.addresses[0], path=path, timeout=10, streams=1, inline_below=0)


@contextmanager
def duo(path: str) -> Iterator[Duo]:
    """A loopback path has one engine for both."""
    with Engine("127.0.0.1:0", options=options()) as theirs, Engine(options=options()) as other:
        ours = theirs if path.startswith("loopback") else other
        far = theirs.allocate("kv", SIZE)
        pool = ours.allocate("pool", SIZE)
        pair = Duo(ours, theirs, path, connect(ours, theirs, path), pool, far)
        try:
            yield pair
        finally:
            pair.hold(False)
