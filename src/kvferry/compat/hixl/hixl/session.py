"""What an initialized engine holds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import NamedTuple

import kvferry as kf

from .codes import ALREADY_CONNECTED
from .connections import Connections
from .failures import status_of, tell
from .memory import Memory
from .options import Settings
from .pool import ConnectPool, Kind, Task
from .statistics import Statistics
from .transfers import Transfers

__all__ = ["Route", "Session"]


class Route(NamedTuple):
    """What Engine.connect is told; None: as the preset has it."""

    path: str
    submitter: str | None = None
    streams: int | None = None
    max_transfers_per_batch: int | None = None


class Session:
    """From initialize to finalize. Every step sets what it makes, and how it is undone."""

    settings: Settings
    route: Route
    options: kf.Options
    pool: ConnectPool
    capacity: int
    connections: Connections
    statistics: Statistics
    engine: kf.Engine
    memory: Memory
    transfers: Transfers

    def __init__(self, local_engine: str, given: Mapping[str, str]) -> None:
        self.local_engine = local_engine
        self.given = given
        self.undo = ExitStack()
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Is this a child's copy? Nothing of it works, and its locks may be held for ever."""
        return os.getpid() != self._process

    def close(self) -> None:
        if not self.forked:
            self.undo.close()

    def dial(self, remote: str, timeout: float) -> kf.Channel:
        return self.engine.connect(remote, timeout=timeout, **self.route._asdict())

    def ended(self, remote: str, channel: kf.Channel) -> None:
        """A connection was taken out."""
        self.statistics.forget(remote)
        self.transfers.end(channel)

    def carry_out(self, task: Task) -> bool:
        """In a thread of the pool."""
        try:
            if task.kind is Kind.CONNECT:
                self.connections.connect(task.remote, task.timeout)
            else:
                self.connections.disconnect(task.remote, task.timeout)
        except Exception as error:
            if status_of(error) == ALREADY_CONNECTED:
                return True
            tell(f"{task.kind.value}_async {task.remote}", error)
            return False
        return True
