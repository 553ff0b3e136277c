"""The two processes of a run: an engine here, one in the target, and equal memory on both sides."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..config import from_environment
from ..engine import Channel, Engine
from ..memory import Region
from ..runtime.commit import rooms
from .launch import Target, start_target
from .machine import read_text
from .sides import Here, Side, There
from .target import REGION

__all__ = ["Session", "free_memory", "open_session", "resident", "shrink"]

CONNECT_SECONDS = 60.0
SHARE = 4
GRAIN = 1 << 20


class Session:
    """Both sides of a run, and which of them holds which pattern."""

    def __init__(self, engine: Engine, region: Region, target: Target) -> None:
        self.engine = engine
        self.region = region
        self.target = target
        self._seeds: dict[bool, int] = {}  # is it ours -> what the side is filled with
        self._fills = 0

    def channel(self, path: str, streams: int) -> Channel:
        """The same one for the same arguments."""
        return self.engine.connect(
            self.target.address, path=path, streams=streams, timeout=CONNECT_SECONDS
        )

    def side(self, ours: bool, channel: Channel) -> Side:
        return Here(self.region) if ours else There(channel)

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
        Engine(options=replace(from_environment(), token=token)) as engine,
    ):
        yield Session(engine, engine.allocate(REGION, size), target)


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
