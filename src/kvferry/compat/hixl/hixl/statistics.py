"""What transfers cost, channel by channel, and the line about it. Costs are in microseconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

__all__ = ["ChannelCosts", "Cost", "Statistics", "SummaryLog", "summary"]

logger = logging.getLogger("hixl")

RESET_AFTER = 100_000  # transfers of a channel
SUMMARY_EVERY = 1800.0  # seconds
KB = 1024
GIB = 1 << 30


@dataclass(slots=True)
class Cost:
    times: int = 0
    max_cost: float = 0.0
    total_cost: float = 0.0

    def add(self, cost: float) -> None:
        self.times += 1
        self.max_cost = max(self.max_cost, cost)
        self.total_cost += cost


@dataclass(slots=True)
class ChannelCosts:
    """Of one channel, named "client:<remote>".

    transfer   from submission to the last completion
    real_copy  of it, from the first byte
    """

    transfer: Cost = field(default_factory=Cost)
    real_copy: Cost = field(default_factory=Cost)
    total_bytes: int = 0
    total_op_desc_count: int = 0

    def add(self, transfer: float, real_copy: float, size: int, descriptors: int) -> None:
        self.transfer.add(transfer)
        self.real_copy.add(real_copy)
        self.total_bytes += size
        self.total_op_desc_count += descriptors

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.total_bytes / (self.transfer.total_cost / 1e6)


class Statistics:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: dict[str, ChannelCosts] = {}

    def register(self, remote: str) -> None:
        with self._lock:
            self._channels.setdefault(_name(remote), ChannelCosts())

    def forget(self, remote: str) -> None:
        with self._lock:
            self._channels.pop(_name(remote), None)

    def update(
        self, remote: str, transfer: float, real_copy: float, size: int, descriptors: int
    ) -> None:
        """A transfer is over; one whose channel is gone is not counted."""
        with self._lock:
            costs = self._channels.get(_name(remote))
            if costs is None:
                return
            if costs.transfer.times >= RESET_AFTER:
                costs = self._channels[_name(remote)] = ChannelCosts()
            costs.add(transfer, real_copy, size, descriptors)

    def snapshot(self) -> dict[str, ChannelCosts]:
        with self._lock:
            return {
                name: replace(
                    costs, transfer=replace(costs.transfer), real_copy=replace(costs.real_copy)
                )
                for name, costs in self._channels.items()
            }


def summary(channels: dict[str, ChannelCosts]) -> str | None:
    """One line; None when nothing was transferred."""
    used = {name: costs for name, costs in channels.items() if costs.transfer.total_cost}
    if not used:
        return None
    times = sum(costs.transfer.times for costs in used.values())
    size = sum(costs.total_bytes for costs in used.values())
    seconds = sum(costs.transfer.total_cost for costs in used.values()) / 1e6
    slowest = min(used, key=lambda name: used[name].bandwidth)
    fastest = max(used, key=lambda name: used[name].bandwidth)
    return (
        f"{times} transfers over {len(used)} channels, {size / times / KB:.1f} kBytes on average; "
        f"GiB/s: {used[fastest].bandwidth / GIB:.3f} at most, "
        f"{used[slowest].bandwidth / GIB:.3f} at least, {size / seconds / GIB:.3f} on average; "
        f"slowest {slowest}"
    )


class SummaryLog:
    """Writes the line every half hour. Owns one thread, until it is closed.

    clock  seconds that rise
    """

    def __init__(self, statistics: Statistics, clock: Callable[[], float]) -> None:
        self._statistics = statistics
        self._clock = clock
        self._due = clock() + SUMMARY_EVERY
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hixl-statistics", daemon=True)
        self._thread.start()

    def look(self, now: float) -> float:
        """Write the line when it is due; the seconds until it will be."""
        if now >= self._due:
            self._due = now + SUMMARY_EVERY
            line = summary(self._statistics.snapshot())
            if line is not None:
                logger.info("statistics: %s", line)
        return self._due - now

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self.look(self._clock())):
            pass


def _name(remote: str) -> str:
    return f"client:{remote}"
