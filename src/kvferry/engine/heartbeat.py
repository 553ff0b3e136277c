"""Beats with every peer of an engine, and what becomes of those that fall silent.

native thread   beats, listens -- bell --> a worker of the poller: state, log, `on_dead`

The thread shares nothing with data, the interpreter or registration (see beat.h); only what follows
from a death runs here.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from functools import partial

from .. import _core, log
from ..errors import ClosedError, NoMemory, PeerError
from ..rpc import Poller
from .liveness import Limits, Liveness, next_state

__all__ = ["Heartbeat", "Heartbeats"]

logger = log.get("kvferry.engine")

NS = 1_000_000_000

OnDead = Callable[[PeerError], None]


class Heartbeat:
    """Beats with one peer, until it is closed.

    state  what is believed of the peer
    """

    def __init__(self, peer: str, limits: Limits, on_dead: OnDead, close: Callable[[], None]):
        self.state = Liveness.ALIVE
        self.close = close
        self._peer = peer
        self._limits = limits
        self._on_dead = on_dead

    def learn(self, reading: int) -> None:
        """Take in what was read (see _core.Beats)."""
        before, self.state = self.state, next_state(self.state, reading)
        if self.state is before:
            return
        if self.state is Liveness.SUSPECT:
            seconds = self._limits.suspect_after
            logger.warning("%s is suspected: silent for %g s", self._peer, seconds)
        elif self.state is Liveness.ALIVE:
            logger.warning("%s is heard again", self._peer)
        else:
            self._on_dead(self._death(reading))

    def _death(self, reading: int) -> PeerError:
        if reading == _core.BEAT_ENDED:
            return PeerError("the peer hung up", cause="connection_lost", peer=self._peer)
        text = f"the peer was silent for {self._limits.dead_after:g} s"
        return PeerError(text, cause="silent", peer=self._peer)


class Heartbeats:
    """The beats of one engine. Thread-safe; its native thread starts with the first peer."""

    def __init__(self, limits: Limits, poller: Poller) -> None:
        self._limits = limits
        self._poller = poller
        self._lock = threading.Lock()
        self._each: dict[int, Heartbeat] = {}
        self._closed = False
        try:
            self._beats = _core.Beats(int(limits.beat * NS))
        except MemoryError as error:
            raise NoMemory("no memory, or no descriptor, for beats", cause="no_memory") from error
        self._bell = self._beats.bell
        poller.attend(self._bell, self._ring)

    def begin(
        self, sock: socket.socket, called: bool, peer: str, beat: float, on_dead: OnDead
    ) -> Heartbeat:
        """Beat over `sock`, which is taken over, with a peer that beats every `beat` seconds.

        `called`: it was the peer who connected, and it begins.
        `on_dead` is called once at most, with the reason, in a worker of its own, and may block.
        Raises ClosedError, NoMemory.
        """
        limits = self._limits.towards(beat)
        silence = (int(limits.suspect_after * NS), int(limits.dead_after * NS))
        with self._lock:
            if self._closed:
                sock.close()
                raise ClosedError("the engine was closed", cause="closed")
            code, number = self._beats.add(sock.detach(), called, *silence)
            if code:
                raise NoMemory(f"no thread for beats: {os.strerror(code)}", cause="no_threads")
            heartbeat = Heartbeat(
                peer,
                limits,
                lambda why: self._poller.submit(partial(on_dead, why)),
                partial(self._end, number),
            )
            self._each[number] = heartbeat
        return heartbeat

    def mute(self, muted: bool) -> None:
        """Say nothing for a while, as if the network swallowed it."""
        self._beats.mute(muted)

    def close(self) -> None:
        """Beat with nobody any more. Idempotent; the poller is closed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._each.clear()
        self._beats.stop()
        with self._lock:  # a worker may be taking news
            self._beats.drop()

    def forked(self) -> None:
        """In a forked child: close inherited descriptors."""
        self._beats.drop()

    def _end(self, number: int) -> None:
        with self._lock:
            if self._each.pop(number, None) is not None:
                self._beats.remove(number)

    def _ring(self) -> None:
        """Not all news may be told at once: what is left rings again at the next look."""
        with self._lock:  # what is told once is not told before its heartbeat is in the books
            news = [(self._each.get(number), reading) for number, reading in self._beats.news()]
        for heartbeat, reading in news:
            if heartbeat is not None:
                heartbeat.learn(reading)
