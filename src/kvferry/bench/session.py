"""The two processes of a run: an engine here, one in the target, and equal memory on both sides."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..engine import Channel, Engine
from ..memory import Region
from ..path import LinkKind
from ..runtime.commit import rooms
from .launch import Target, start_target
from .machine import read_text
from .shares import Share, whole
from .sides import Here, Side, There
from .target import REGION, host_options
from .yardsticks import Reach

__all__ = ["Session", "free_memory", "open_engine", "open_session", "pool", "resident", "shrink"]

CONNECT_SECONDS = 60.0
FABRIC = "fabric/inline"
MAPPED = (LinkKind.LOOPBACK, LinkKind.FABRIC)
SHARE = 4
GRAIN = 1 << 20


class Session:
    """An engine here, a target there, what of their memory is moved, and which side holds which
    pattern. Connecting takes at most `patience` seconds.
    """

    def __init__(
        self,
        engine: Engine,
        region: Region,
        target: Target,
        share: Share | None = None,
        patience: float = CONNECT_SECONDS,
    ) -> None:
        self.engine = engine
        self.region = region
        self.target = target
        self.share = share or whole(region.length)
        self._patience = patience
        self._seeds: dict[bool, int] = {}  # is it ours -> what the side is filled with
        self._fills = 0

    @property
    def size(self) -> int:
        """Bytes a side."""
        return self.share.size

    def channel(self, path: str, streams: int) -> Channel:
        """The same one for the same arguments."""
        return self.engine.connect(
            self.target.address, path=path, streams=streams, timeout=self._patience
        )

    def reach(self, channel: Channel) -> Reach:
        """Where both sides are, for who moves blocks by other means than the channel."""
        theirs = channel.regions[REGION]
        mapped = theirs if channel.path.link in MAPPED else self.channel(FABRIC, 1).regions[REGION]
        return Reach(
            local=self.region.address + self.share.local_at,
            mapped=mapped.span.here + self.share.remote_at,
            remote=theirs.address + self.share.remote_at,
            pid=self.target.pid,
        )

    def side(self, ours: bool, channel: Channel) -> Side:
        share = self.share
        if ours:
            return Here(self.region).slice(share.local_at, share.size)
        return There(channel, share.remote_at, share.size)

    def pattern(self, ours: bool, channel: Channel) -> int:
        """Number of the pattern that covers a side, put there unless it is."""
        if ours not in self._seeds:
            self._fills += 1
            self.side(ours, channel).fill(self._fills)
            self._seeds[ours] = self._fills
        return self._seeds[ours]

    def overwritten(self, ours: bool) -> None:
        """A side is going to be a destination: its pattern is gone."""
        self._seeds.pop(ours, None)

    def memory(self) -> dict[str, int]:
        """Resident bytes of both processes, without the memory they share."""
        return {"initiator": resident("self"), "target": resident(self.target.pid)}


@contextmanager
def open_session(size: int) -> Iterator[Session]:
    """Start the target and give both sides `size` bytes. All of it is gone after the block."""
    token = secrets.token_hex().encode()
    with (
        start_target(size, token) as target,
        open_engine(token) as engine,
    ):
        yield Session(engine, engine.allocate(REGION, size), target)


def open_engine(token: bytes) -> Engine:
    """An initiator's."""
    return Engine(options=host_options(token))


def shrink(asked: int, free: int) -> int:
    """Bytes a side may have: `asked`, or whole MiB of a quarter of what is free."""
    most = free // SHARE
    return asked if asked <= most else max(most // GRAIN, 1) * GRAIN


def free_memory() -> int:
    """Bytes that this machine and our control groups still have."""
    return min((room.available for room in rooms(read_text)), default=1 << 62)


def resident(process: int | str) -> int:
    """Bytes of a process in memory: its own and of files, not of shared memory."""
    status = Path(f"/proc/{process}/status").read_text()
    return sum(int(kib) << 10 for kib in re.findall(r"^Rss(?:Anon|File):\s+(\d+) kB", status, re.M))


def pool(session: Session) -> dict[str, Any]:
    """The pages that the memory which is moved stands in."""
    grant = session.region.grant
    assert grant is not None
    return {"page": grant.page, "huge": grant.huge, "notes": list(grant.notes)}
