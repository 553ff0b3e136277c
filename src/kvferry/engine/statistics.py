"""What an engine's channels counted, as a value and as lines in the log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .. import log
from ..path import Path
from ..stats import Stats

if TYPE_CHECKING:
    from .channel import Channel

__all__ = ["StatsLog", "statistics"]

logger = log.get("kvferry.stats")


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
