"""Many sockets, one epoll, and the workers that wait in it.

A socket is armed for one event (EPOLLONESHOT), so one worker has it at a time. While a worker is
busy another one waits: a handler that blocks delays nobody else.
"""

from __future__ import annotations

import heapq
import itertools
import os
import select
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from .. import log
from ..errors import ClosedError, Error, NoMemory, PeerError
from .connection import Connection
from .guest import Guest
from .workers import Job, Workers

if TYPE_CHECKING:
    from .tls import Tls

__all__ = ["Accept", "Poller"]

IDLE_TIME = 5.0  # seconds after which a spare worker ends; the latest a missed deadline is seen
AUTHENTICATION_TIME = 10.0  # seconds an accepted connection has to become authenticated
JOIN_TIME = 5.0  # seconds close() waits for a handler that does not end
PAUSE = 0.05  # seconds to the next attempt when a connection cannot be accepted

Accept = Callable[[socket.socket], "Connection | None"]

logger = log.get("kvferry.rpc")


class _Watched(Protocol):
    """What takes turns."""

    def turn(self) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...


class Poller:
    """Serves listening sockets and connections with as many threads as are busy, and one more.

    Threads start with the first socket and are daemons. Thread-safe; only close() blocks. More
    than 64 handlers that block at once delay the rest.
    """

    def __init__(
        self, name: str, *, clock: Callable[[], float] = time.monotonic, idle: float = IDLE_TIME
    ) -> None:
        self._name = name
        self._clock = clock
        self._idle = idle
        self._lock = threading.Lock()
        self._closed = False
        self._watched: dict[int, _Watched] = {}
        # A heap; weak, because what is lost before its time should not stay until then.
        self._deadlines: list[tuple[float, int, weakref.ref[Connection | Guest]]] = []
        self._order = itertools.count()
        # A semaphore with one token for each job: a worker that waits wakes and takes both.
        self._jobs: deque[Job] = deque()
        self._epoll, self._tokens = _open()
        self._epoll.register(self._tokens, select.EPOLLIN)
        self._workers = Workers(
            f"kvferry-{name}", self._next, self._put_out_lights, clock=clock, idle=idle
        )

    def listen(
        self,
        sock: socket.socket,
        accept: Accept,
        *,
        patience: float = AUTHENTICATION_TIME,
        tls: Tls | None = None,
    ) -> None:
        """Accepts connections until forget(sock), after which `sock` is the caller's to close.

        `accept` owns the new socket. A connection it returns is watched, and lost unless it is
        authenticated within `patience` seconds. With `tls` it is the plain end of one that has
        shaken hands, within as many seconds.
        """
        sock.setblocking(False)
        accepted = partial(self._accept, accept, patience)
        if tls is not None:
            accepted = partial(self._receive, accepted, patience, tls)
        listener = _Listener(self, sock, accepted)
        self.register(sock.fileno(), listener)
        self.arm(sock.fileno(), select.EPOLLIN)
        self._workers.start()

    def watch(self, connection: Connection, *, deadline: float | None = None) -> None:
        """Serves `connection` until it is lost.

        It is lost unless `authenticated`, and nothing is `awaited` any more, by `deadline`, a time
        of the poller's clock. Raises
        ClosedError or PeerError when poller or connection are over already.
        """
        connection.attach(self)
        self._workers.start()
        if deadline is not None:
            self._expect(connection, deadline)

    def forget(self, watched: Connection | socket.socket) -> None:
        """Leaves it open but unattended: a connection answers no more, a socket accepts no more."""
        if isinstance(watched, Connection):
            watched.detach()
        else:
            self.unregister(watched.fileno())

    def close(self) -> None:
        """Closes every connection it watches and ends its threads. Idempotent.

        Waits for running handlers, unless called from one. Listening sockets stay the caller's.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            watched = list(self._watched.values())
        for each in watched:
            each.close()
        os.eventfd_write(self._tokens, 1)  # never taken, so every worker wakes
        if self._workers.stop():
            self._workers.join(JOIN_TIME)
        else:
            self._put_out_lights()

    def abandon(self) -> None:
        """In a forked child: closes what was inherited, connections included, and tells nobody."""
        self._lock = threading.Lock()
        self._closed = True
        self._workers.abandon()
        for each in self._watched.values():
            each.abandon()
        self._watched.clear()
        self._put_out_lights()

    # For those it watches.

    def register(self, fd: int, watched: _Watched) -> None:
        """`watched.turn` runs in a worker, once for each time that `fd` is armed and ready."""
        with self._lock:
            if self._closed:
                raise ClosedError(f"poller {self._name} is closed", cause="closed")
            self._epoll.register(fd, select.EPOLLONESHOT)
            self._watched[fd] = watched

    def unregister(self, fd: int) -> None:
        """Before `fd` is closed: its number may be another's a moment later."""
        with self._lock:
            if self._watched.pop(fd, None) is not None and not self._epoll.closed:
                self._epoll.unregister(fd)

    def arm(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events | select.EPOLLONESHOT)

    def rearm(self, fd: int, watched: _Watched) -> None:
        """Arms for reading, unless it was forgotten."""
        with self._lock:
            if self._watched.get(fd) is watched:
                self.arm(fd, select.EPOLLIN)

    def submit(self, job: Job) -> None:
        """Runs `job` in a worker; here and now when there are no workers any more."""
        with self._lock:
            dark = self._epoll.closed
            if not dark:
                self._jobs.append(job)
                os.eventfd_write(self._tokens, 1)
        if dark:
            job()

    # In the workers.

    def _next(self) -> Job | None:
        due, patience = self._look_at_deadlines()
        if due is not None:
            return due
        ready = self._epoll.poll(patience, 1)
        if not ready:
            return None
        fd = ready[0][0]
        if fd == self._tokens:
            return self._take_job()
        # Gone, or another's by now, when its descriptor was closed meanwhile: a turn too many
        # finds nothing to read and does no harm.
        watched = self._watched.get(fd)
        return None if watched is None else watched.turn

    def _look_at_deadlines(self) -> tuple[Job | None, float]:
        """A connection to lose, or the seconds until there may be one."""
        if not self._deadlines:
            return None, self._idle
        with self._lock:
            now = self._clock()
            while self._deadlines:
                deadline, _, known = self._deadlines[0]
                connection = known()
                owed = None if connection is None else _owed(connection)
                if owed and deadline > now:
                    break
                heapq.heappop(self._deadlines)
                if connection is not None and owed:
                    return partial(connection.lose, _too_late(owed)), 0.0
            until = self._deadlines[0][0] - now if self._deadlines else self._idle
            return None, min(until, self._idle)

    def _take_job(self) -> Job | None:
        with self._lock:
            if self._closed:
                return None
            try:
                os.eventfd_read(self._tokens)
            except BlockingIOError:
                return None  # another worker was quicker
            return self._jobs.popleft()

    def _accept(self, accept: Accept, patience: float, sock: socket.socket) -> None:
        try:
            connection = accept(sock)
        except Exception:
            logger.exception("a new connection was not accepted")
            sock.close()
            return
        if connection is None:
            return
        try:
            self.watch(connection, deadline=self._clock() + patience)
        except Error:  # one of us is over already
            connection.close()

    def _receive(
        self,
        accepted: Callable[[socket.socket], None],
        patience: float,
        tls: Tls,
        sock: socket.socket,
    ) -> None:
        guest = Guest(sock, tls, self, accepted)
        try:
            guest.attach()
        except ClosedError:
            guest.close()
            return
        self._expect(guest, self._clock() + patience)

    def _expect(self, debtor: Connection | Guest, deadline: float) -> None:
        with self._lock:
            heapq.heappush(self._deadlines, (deadline, next(self._order), weakref.ref(debtor)))
        self.submit(_nothing)  # the worker it wakes goes to sleep again, until the deadline

    def _put_out_lights(self) -> None:
        with self._lock:
            if self._epoll.closed:
                return
            self._epoll.close()
            os.close(self._tokens)
        # Their connections are lost: they only close the descriptors that came with them.
        while self._jobs:
            self._jobs.popleft()()


class _Listener:
    """A listening socket that takes turns."""

    def __init__(
        self, poller: Poller, sock: socket.socket, accepted: Callable[[socket.socket], None]
    ) -> None:
        self._poller = poller
        self._sock = sock
        self._fd = sock.fileno()
        self._accepted = accepted

    def turn(self) -> None:
        try:
            sock = self._sock.accept()[0]
        except BlockingIOError:
            sock = None
        except OSError as error:
            # Out of descriptors, most likely: the caller stays in the queue, we do not spin.
            logger.warning("accepting failed: %s", error)
            sock = None
            time.sleep(PAUSE)
        self._poller.rearm(self._fd, self)
        if sock is not None:
            self._accepted(sock)

    def close(self) -> None:
        """It stays whose it is."""

    def abandon(self) -> None:
        """It stays whose it is."""


def _owed(connection: Connection | Guest) -> str | None:
    return connection.awaited if connection.authenticated else "its proof"


def _too_late(owed: str) -> PeerError:
    return PeerError(f"the peer did not send {owed} in time", cause="not_authenticated")


def _nothing() -> None:
    pass


def _open() -> tuple[select.epoll, int]:
    epoll = None
    try:
        epoll = select.epoll()
        return epoll, os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError as error:
        if epoll is not None:
            epoll.close()
        raise NoMemory(f"no poller: {error.strerror}", cause="descriptors") from error
