"""Channels by the name that a program calls their peer.

Locks, in the order in which they may be taken:

    1  turn   of one peer: held while its channel is made or closed, which speaks to the peer
    2  lock   of the table: held for lines that touch it
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import kvferry as kf

from .codes import ALREADY_CONNECTED, NOT_CONNECTED, TIMEOUT
from .failures import LOSES_THE_CHANNEL, Refused

__all__ = ["AUTO_CONNECT_SECONDS", "Connections"]

logger = logging.getLogger("hixl")

AUTO_CONNECT_SECONDS = 3.0


class Connections:
    """Thread-safe.

    dial   makes the channel to a peer, or finds it, within so many seconds
    auto   connect when a transfer needs it, and drop a channel after a failure
    begun  told of every channel that is entered
    ended  closes a channel that was taken out, and what hangs on it
    """

    def __init__(
        self,
        dial: Callable[[str, float], kf.Channel],
        auto: bool,
        begun: Callable[[str], None],
        ended: Callable[[str, kf.Channel], None],
    ) -> None:
        self._dial = dial
        self._auto = auto
        self._begun = begun
        self._ended = ended
        self._lock = threading.Lock()
        self._channels: dict[str, kf.Channel] = {}
        self._turns: weakref.WeakValueDictionary[str, _Turn] = weakref.WeakValueDictionary()

    def connect(self, remote: str, timeout: float) -> None:
        """Raises Refused when it is connected, also under another name; else as Engine.connect."""
        deadline = time.monotonic() + timeout
        with self._turn(remote, timeout):
            if self._auto:
                self._forget_lost(remote)
            if remote in self._channels:
                raise _already(remote)
            channel = self._dial(remote, max(deadline - time.monotonic(), 0))
            with self._lock:
                for name, each in self._channels.items():
                    if each is channel:
                        raise _already(f"{remote}, known as {name},")
                self._channels[remote] = channel
            self._begun(remote)

    def disconnect(self, remote: str, timeout: float) -> None:
        """Aborts what is under way, and waits for none. Raises Refused when not connected."""
        with self._turn(remote, timeout):
            channel = self._channels.get(remote)
            if channel is None:
                raise Refused(NOT_CONNECTED, f"{remote} is not connected")
            self._remove(remote, channel)

    def get(self, remote: str) -> kf.Channel:
        """The channel that is open. Raises Refused."""
        channel = self._channels.get(remote)
        if channel is None:
            raise Refused(NOT_CONNECTED, f"{remote} is not connected")
        if channel.closed:
            raise Refused(NOT_CONNECTED, f"{remote} was lost: disconnect it, then connect again")
        return channel

    def holds(self, remote: str, channel: kf.Channel) -> bool:
        return self._channels.get(remote) is channel

    def for_transfer(self, remote: str) -> kf.Channel:
        """As `get`; made now, and made anew when the peer was lost, where that was asked for."""
        if self._auto:
            channel = self._channels.get(remote)
            if channel is None or channel.stale():
                self._connect_for_all(remote)
        return self.get(remote)

    @contextmanager
    def dropping(self, remote: str, channel: kf.Channel) -> Iterator[None]:
        """Work over `channel`: after a failure of it the channel goes, where that was asked for."""
        try:
            yield
        except LOSES_THE_CHANNEL as error:
            if self._auto:
                logger.warning("%s is dropped after a failure: %s", remote, error)
                with suppress(Refused, kf.Error):  # what failed first is what is raised
                    self.drop(remote, channel)
            raise

    def drop(self, remote: str, channel: kf.Channel) -> None:
        """Disconnect, if it is still this channel."""
        with self._turn(remote, AUTO_CONNECT_SECONDS):
            self._remove(remote, channel)

    def connected(self) -> list[str]:
        """The peers that have a channel; without those lost, where they are looked after."""
        for remote, channel in list(self._channels.items()):
            if self._auto and channel.stale():
                self.drop(remote, channel)
        return list(self._channels)

    def close(self) -> None:
        for remote, channel in list(self._channels.items()):
            self._remove(remote, channel)

    def _connect_for_all(self, remote: str) -> None:
        try:
            self.connect(remote, AUTO_CONNECT_SECONDS)
        except Refused as refused:
            if refused.status != ALREADY_CONNECTED:  # by another thread, meanwhile
                raise

    def _forget_lost(self, remote: str) -> None:
        """With the turn."""
        channel = self._channels.get(remote)
        if channel is not None and channel.stale():
            logger.warning("%s was lost, and is dropped", remote)
            self._remove(remote, channel)

    def _remove(self, remote: str, channel: kf.Channel) -> None:
        """Once."""
        with self._lock:
            if self._channels.get(remote) is not channel:
                return
            del self._channels[remote]
        self._ended(remote, channel)

    @contextmanager
    def _turn(self, remote: str, timeout: float) -> Iterator[None]:
        """Be the one who connects or disconnects this peer. Raises Refused."""
        with self._lock:
            turn = self._turns.setdefault(remote, _Turn())
        if not turn.lock.acquire(timeout=timeout):
            raise Refused(TIMEOUT, f"somebody else has been busy connecting {remote}")
        try:
            yield
        finally:
            turn.lock.release()


class _Turn:
    """Gone when nobody has it or waits for it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


def _already(remote: str) -> Refused:
    return Refused(ALREADY_CONNECTED, f"{remote} is connected already")
