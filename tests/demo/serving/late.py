"""A channel whose transfers move their bytes as late as they may, and fail when they are to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kvferry.engine import Channel, Report
from kvferry.errors import Full, PeerError, Timeout


class Strikes(Protocol):
    def strikes(self, share: float = 1.0) -> bool: ...


class LateTransfer:
    """Its bytes move when it is waited for, or somebody lets it land; not after it was waited for
    in vain."""

    def __init__(self, move: Callable[[], Report], fails: bool) -> None:
        self._move, self._fails = move, fails
        self._over = False
        self.report: Report | None = None

    def land(self) -> None:
        if not self._over:
            self._over = True
            self.report = self._move()

    def wait(self, timeout: float | None = None) -> None:
        if self._fails:
            self._over = True
            raise PeerError("half of it", cause="fate")
        self.land()


class LateChannel:
    """Stands for a channel that writes and notifies."""

    def __init__(self, channel: Channel, fate: Strikes) -> None:
        self.channel, self._fate = channel, fate
        self.transfers: list[LateTransfer] = []

    def land_one(self) -> None:
        """The one that was submitted last."""
        if self.transfers:
            self.transfers.pop().land()

    def write_async(self, batch: Any) -> LateTransfer:
        if self._fate.strikes(0.2):
            raise Full("fate", cause="fate")
        transfer = LateTransfer(lambda: self.channel.write(batch), self._fate.strikes(0.2))
        self.transfers.append(transfer)
        return transfer

    def notify(self, name: str, message: bytes, timeout: float | None = None) -> None:
        """May fail before or after it was heard."""
        if self._fate.strikes(0.5):
            raise Timeout("fate", cause="fate")
        self.channel.notify(name, message, timeout=timeout)
        if self._fate.strikes(0.5):
            raise Timeout("fate", cause="fate")
