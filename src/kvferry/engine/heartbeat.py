"""Beats with every peer of an engine, and what becomes of those that fall silent.

native thread   beats, listens -- bell --> a thread of Python: state, log, `on_dead`

The native one shares nothing with data, the interpreter or registration (see beat.h); only what
follows from its news runs here. It is no worker of the poller, since all of those may be waiting
for a peer of whom only its death can be told.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable
from functools import partial

from .. import _core, log
from ..errors import ClosedError, NoMemory, PeerError
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
    """The beats of one engine. Thread-safe; its two threads start with the first peer."""

    def __init__(self, limits: Limits, name: str) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._each: dict[int, Heartbeat] = {}
        self._closed = False
        self._name = f"kvferry-{name}-beats"
        self._thread: threading.Thread | None = None
        try:
            self._beats = _core.Beats(int(limits.beat * NS))
        except MemoryError as error:
            raise NoMemory("no memory, or no descriptor, for beats", cause="no_memory") from error

    def begin(
        self, sock: socket.socket, peer: str, beat: float, on_dead: OnDead, *, called: bool
    ) -> Heartbeat:
        """Beat over `sock`, which is taken over, with a peer that beats every `beat` seconds.

        `called`: it was the peer who connected, and it begins.
        `on_dead` is called once at most, with the reason, in the thread that learns of all others.
        Raises ClosedError, NoMemory.
        """
        limits = self._limits.towards(beat)
        silence = (int(limits.suspect_after * NS), int(limits.dead_after * NS))
        with sock, self._lock:
            if self._closed:
                raise ClosedError("the engine was closed", cause="closed")
            self._start()
            code, number = self._beats.add(sock.detach(), called, *silence)
            if code:
                raise NoMemory(f"no thread for beats: {os.strerror(code)}", cause="no_threads")
            heartbeat = Heartbeat(peer, limits, on_dead, partial(self._end, number))
            self._each[number] = heartbeat
        return heartbeat

    def mute(self, muted: bool) -> None:
        """Say nothing for a while, as if the network swallowed it."""
        self._beats.mute(muted)

    def close(self) -> None:
        """Beat with nobody any more. Idempotent, for one caller at a time."""
        with self._lock:
            self._closed = True
            self._each.clear()
        if self._beats.bell < 0:
            return
        if self._thread is not None:
            os.eventfd_write(self._beats.bell, 1)
            self._thread.join()
        self._beats.stop()
        self._beats.drop()

    def forked(self) -> None:
        """In a forked child: close inherited descriptors."""
        self._beats.drop()

    def _end(self, number: int) -> None:
        with self._lock:
            if self._each.pop(number, None) is not None:
                self._beats.remove(number)

    def _start(self) -> None:
        """Under the lock: the thread, unless it is there."""
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._listen, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise NoMemory(f"no thread for beats: {error}", cause="no_threads") from error
        self._thread = thread

    def _listen(self) -> None:
        bell = self._beats.bell
        rung = select.poll()
        rung.register(bell, select.POLLIN)
        while not self._closed:
            rung.poll()
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(bell)
            try:
                self._learn()
            except Exception:
                logger.exception("what was heard of a peer is lost")

    def _learn(self) -> None:
        """Not all news may be told at once: what is left rings again at the next look."""
        with self._lock:  # what is told once is not told before its heartbeat is in the books
            news = [(self._each.get(number), reading) for number, reading in self._beats.news()]
        for heartbeat, reading in news:
            if heartbeat is not None:
                heartbeat.learn(reading)
