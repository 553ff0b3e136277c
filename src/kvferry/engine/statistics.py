"""What an engine's channels counted, as a value and as lines in the log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from .. import _core, log
from ..path import Path
from ..stats import Stats, snapshot
from .liveness import Liveness

if TYPE_CHECKING:
    from .channel import Channel

__all__ = ["Flow", "StatsLog", "Tallies", "flows", "statistics"]

logger = log.get("kvferry.stats")


class Tallies:
    """What one channel counts: by way, and READ or WRITE."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self.by = tuple(
            {op: _core.Tally() for op in (_core.READ, _core.WRITE)} for _ in self._paths
        )

    def sums(self) -> Iterator[tuple[Path, Stats, Stats]]:
        """Of reads and of writes over each path."""
        for path, tallies in zip(self._paths, self.by, strict=True):
            yield path, snapshot(tallies[_core.READ]), snapshot(tallies[_core.WRITE])


class Flow(NamedTuple):
    """What went to a peer, if it `writes`, or came from there, over one path."""

    peer: str
    path: Path
    writes: bool
    suspected: bool
    stats: Stats

    def join(self, other: Flow) -> Flow:
        suspected = self.suspected or other.suspected
        return self._replace(suspected=suspected, stats=self.stats.join(other.stats))


def flows(channels: Iterable[Channel]) -> list[Flow]:
    """Such as moved something; those of several channels to one peer are joined."""
    found: dict[tuple[str, Path, bool], Flow] = {}
    for each in channels:
        suspected = each.liveness is not Liveness.ALIVE
        for path, *both in each.tallies.sums():
            for writes, stats in zip((False, True), both, strict=True):
                name = each.peer, path, writes
                flow = Flow(*name, suspected, stats)
                found[name] = flow.join(found[name]) if name in found else flow
    return [flow for flow in found.values() if flow.stats.transfers.count]


def statistics(channels: Iterable[Channel]) -> dict[str, dict[Path, Stats]]:
    """Sums by peer and path; those of several channels to one peer are joined."""
    found: dict[str, dict[Path, Stats]] = {}
    for channel in channels:
        paths = found.setdefault(channel.peer, {})
        for path, stats in channel.stats.items():
            paths[path] = paths[path].join(stats) if path in paths else stats
    return found


class StatsLog:
    """Writes a line a peer and path every `seconds`; never, when they are 0. Owns one thread."""

    def __init__(self, channels: Callable[[], list[Channel]], seconds: float) -> None:
        self._channels = channels
        self._seconds = seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvferry-stats", daemon=True)
        if seconds:
            self._thread.start()

    def close(self) -> None:
        """After a last dump."""
        self._closed.set()
        if self._seconds and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._seconds):
            self._dump()
        self._dump()

    def _dump(self) -> None:
        for peer, paths in statistics(self._channels()).items():
            for path, stats in paths.items():
                logger.info("%s %s %s", peer, path, stats.describe())
