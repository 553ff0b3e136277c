"""Calls in both directions over one stream socket.

Whoever reads the socket holds *the lead*; there is one at a time:

    nobody leads     the poller is armed; a readable socket makes one of its workers lead
    a worker leads   for one read, which never blocks
    a caller leads   until its own reply came or its time is up; the poller is disarmed

Who leads delivers everything that arrives: replies to their callers, requests to the poller's
workers. On giving the lead up it passes to a caller that still waits, else back to the poller.

A lost connection is shut down at once, which wakes whoever leads; the descriptor is closed by the
last one who could be using it: the leader when it gives up the lead, else who lost it.

Locks: the connection's, then the poller's. Reading, handlers and `on_lost` run under neither.
"""

from __future__ import annotations

import contextlib
import logging
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .. import log
from ..errors import ClosedError, Error, ForkedError, Full, PeerError, UsageError
from . import peer
from .backlog import Backlog
from .calls import Calls, Waiter
from .descriptors import close_all
from .inbox import Arrival, Inbox
from .outbox import Outbox
from .wire import MAX_FDS, Kind, encode

if TYPE_CHECKING:
    from .poller import Poller

__all__ = ["LIMIT", "LIMIT_BEFORE_AUTHENTICATION", "Connection", "Serve"]

LIMIT_BEFORE_AUTHENTICATION = 64 << 10
LIMIT = 16 << 20

MAX_FAILURE = 4096  # bytes of a FAILURE's text

# Longest single wait in seconds; longer timeouts wait again.
LONGEST_WAIT = 3600.0

# On TCP: seconds of silence before the kernel asks, seconds between two questions, and how many. A
# host that vanished is noticed even over a connection that has no beats.
KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))

Serve = Callable[["Connection", bytes, list[int]], tuple[bytes, Sequence[int]]]

logger = log.get("kvferry.rpc")


class Connection:
    """One connected stream socket, AF_UNIX or TCP, owned from here on. Thread-safe.

    It works while a Poller watches it. `serve(connection, body, fds)` answers a request of the
    peer in a worker of that poller and may block, call back and close; it owns the descriptors it
    receives and lends those it returns. What it raises reaches the peer as text.

    serve          settable; requests read later are answered by the new one
    limit          settable; bytes a message may have, in either direction
    authenticated  settable; until then the peer may have one unanswered request at a time
    awaited        settable; what else the peer owes before the deadline that a poller was given
    peer           settable; who is at the other end, for messages
    credentials    (pid, uid) of the process that connected or listened; None across TCP
    hand_over      settable by `serve`: after its reply the socket is given to it (see release)
    on_lost        settable; called once when the connection is over, for whatever reason, in the
                   thread that notices; set after that, it is called at once
    lost           why the connection is over, or None
    """

    def __init__(
        self,
        sock: socket.socket,
        serve: Serve,
        *,
        limit: int = LIMIT_BEFORE_AUTHENTICATION,
        on_lost: Callable[[Connection], None] | None = None,
    ) -> None:
        sock.setblocking(False)
        self._unix = sock.family == socket.AF_UNIX
        if not self._unix:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(sock)
        self.serve = serve
        self.authenticated = False
        self.awaited: str | None = None
        self.hand_over: Callable[[socket.socket], None] | None = None
        self.peer = peer.name(sock)
        self.credentials = peer.credentials(sock)  # now: later the socket may be closed
        self.lost: Error | None = None
        self._sock = sock
        self._fd = sock.fileno()
        self._on_lost = on_lost
        self._inbox = Inbox(sock, limit)
        self._outbox = Outbox(sock)
        self._readable = select.poll()
        self._readable.register(self._fd, select.POLLIN)
        self._lock = threading.Lock()
        self._calls = Calls()
        self._backlog = Backlog()
        self._poller: Poller | None = None
        self._watched = False

    @property
    def limit(self) -> int:
        return self._inbox.decoder.limit

    @limit.setter
    def limit(self, size: int) -> None:
        self._inbox.decoder.limit = size

    @property
    def on_lost(self) -> Callable[[Connection], None] | None:
        return self._on_lost

    @on_lost.setter
    def on_lost(self, told: Callable[[Connection], None] | None) -> None:
        with self._lock:
            self._on_lost = told
            late = self.lost is not None
        if late:
            self._tell(told)

    def fileno(self) -> int:
        """-1 when the socket is closed."""
        return self._sock.fileno()

    def pidfd(self) -> int | None:
        """A new descriptor of the process that connected or listened, the caller's to close; None
        where the kernel gives none, and when that process or the connection is gone."""
        return peer.pidfd(self._sock)

    def call(
        self, body: bytes, fds: Sequence[int] = (), timeout: float | None = None
    ) -> tuple[bytes, list[int]]:
        """Asks the peer and blocks until it answered, `timeout` seconds at most. Thread-safe.

        Returns the body of the reply and its descriptors, which the caller owns. `fds` are
        borrowed. Raises Timeout("call_timeout"), and the peer may still carry the request out;
        PeerError("connection_lost" or "call_failed"); ClosedError after close(); Full
        ("send_buffer") and UsageError with nothing sent. When a signal handler raises in here, the
        connection is lost: nobody could know any more who reads it.
        """
        try:
            return self._call(body, fds, timeout)
        except Error:
            raise
        except BaseException:
            self._interrupted()
            raise

    def _call(
        self, body: bytes, fds: Sequence[int], timeout: float | None
    ) -> tuple[bytes, list[int]]:
        deadline = None if timeout is None else time.monotonic() + timeout
        waiter = self._enter()
        try:
            self._send(Kind.REQUEST, waiter.call, body, fds)
            self._await(waiter, deadline)
        except BaseException:
            self._leave(waiter)
            waiter.discard()
            raise
        self._leave(waiter)
        return waiter.result(self.peer)

    def _interrupted(self) -> None:
        with self._lock:
            led_by_us = self._calls.leader == threading.get_ident()
        self.lose(PeerError("a call was interrupted", cause="interrupted", peer=self.peer))
        if led_by_us:
            self._shut()

    def close(self) -> None:
        """Ends the connection; callers that wait raise ClosedError. Idempotent, does not block."""
        self.lose(ClosedError("the connection was closed", cause="closed", peer=self.peer))

    def release(self) -> socket.socket:
        """Give the socket away, open: nothing is read, answered or sent here any more.

        Only between two calls, when the peer has nothing to say of its own accord. Raises PeerError
        when the connection is over, or bytes are left that would be lost.
        """
        with self._lock:
            if self.lost is not None:
                raise self._gone(self.lost)
            busy = self._calls.led or len(self._calls) or self._outbox.rest
            if busy or self._inbox.decoder.amid:
                raise PeerError("bytes are still under way", cause="protocol", peer=self.peer)
            self._unwatch()
            self.lost = ClosedError("the socket was given away", cause="closed", peer=self.peer)
        self._outbox.close()
        self._inbox.close()
        return self._sock

    def abandon(self) -> None:
        """In a forked child: closes what was inherited, tells nobody; the parent's lives on."""
        self._lock = threading.Lock()  # the old one may be held by a thread that is not here
        self._watched = False
        self.lost = ForkedError("the connection belongs to the parent process", cause="forked")
        self._outbox.abandon()
        self._inbox.close()
        self._sock.close()

    def lose(self, why: Error) -> None:
        """Ends the connection because of `why`, unless it is over already."""
        with self._lock:
            if self.lost is not None:
                return
            self.lost = _without_frames(why)
            self._unwatch()
            self._calls.fail(lambda: self._gone(why))
            led, told = self._calls.led, self._on_lost
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
        if not led:
            self._shut()
        if not isinstance(why, ClosedError):
            logger.info("connection to %s lost: %s", self.peer, why)
        self._tell(told)

    # For the poller.

    def attach(self, poller: Poller) -> None:
        """From here on a worker of `poller` takes a turn when the socket is ready."""
        with self._lock:
            if self.lost is not None:
                raise self._gone(self.lost)
            if self._watched:
                raise UsageError("the connection is watched already", cause="watched")
            self._poller = poller
            self._watched = True
            poller.register(self._fd, self)
            self._arm()

    def detach(self) -> None:
        with self._lock:
            self._unwatch()

    def turn(self) -> None:
        """A worker's turn: sends what waits, reads once, answers what was asked."""
        if self._outbox.rest:
            self._flush()
        if not self._take_lead():
            return
        requests = self._read()
        self._give_up_lead()
        for request in requests[1:]:
            self._hand_over(request)
        if requests:
            self._answer(requests[0])

    # Calling.

    def _enter(self) -> Waiter:
        with self._lock:
            if self.lost is not None:
                raise self._gone(self.lost)
            if not self._watched:
                raise UsageError("no poller watches the connection", cause="unwatched")
            waiter = self._calls.enter()
            if waiter.leads:
                self._arm()
        return waiter

    def _await(self, waiter: Waiter, deadline: float | None) -> None:
        while waiter.outcome is None:
            left = LONGEST_WAIT if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return
            left = min(left, LONGEST_WAIT)
            if not waiter.leads:
                waiter.wait(left)
            elif self._readable.poll(math.ceil(left * 1000)):
                for request in self._read():
                    self._hand_over(request)

    def _leave(self, waiter: Waiter) -> None:
        with self._lock:
            self._calls.leave(waiter)
            lost = waiter.leads and self._pass_lead()
        if lost:
            self._shut()

    # Reading, by whoever leads.

    def _take_lead(self) -> bool:
        with self._lock:
            if self.lost is not None:
                return False
            if not self._calls.led:
                self._calls.led = True
                return True
            if self._outbox.rest:  # the event that brought us here disarmed the poller
                self._arm()
            return False

    def _give_up_lead(self) -> None:
        with self._lock:
            lost = self._pass_lead()
        if lost:
            self._shut()

    def _pass_lead(self) -> bool:
        """To a caller that waits, else to the poller. True: lost, and who led shuts it."""
        if self.lost is not None:
            return True
        self._calls.pass_lead()
        if not self._calls.led:
            self._arm()
        return False

    def _read(self) -> list[Arrival]:
        """Reads once, delivers the replies and returns the requests."""
        try:
            arrivals = self._inbox.read()
        except PeerError as error:
            self.lose(error)
            return []
        requests = []
        with self._lock:
            for arrival in arrivals:
                if arrival[0].kind is Kind.REQUEST:
                    requests.append(arrival)
                else:
                    self._calls.deliver(arrival)
            self._backlog.add(requests)
            overrun = self._backlog.overrun(self.authenticated)
        if overrun:
            self.lose(PeerError("the peer asked too much at once", cause="protocol"))
        return requests

    # Answering, in a worker of the poller.

    def _hand_over(self, request: Arrival) -> None:
        assert self._poller is not None, "read before a poller was there"
        self._poller.submit(partial(self._answer, request))

    def _answer(self, request: Arrival) -> None:
        frame, fds = request
        if self.lost is not None:
            close_all(fds)
            return
        try:
            body, lent = self.serve(self, frame.body, fds)
            kind = Kind.REPLY
        except BaseException as error:  # a worker outlives whatever a handler does
            kind, body, lent = Kind.FAILURE, self._explain(error), ()
        with self._lock:  # before the peer can know and ask again
            self._backlog.done(frame)
            taker = self.hand_over
            if taker is not None:
                self._unwatch()  # what the peer sends after the reply is not ours to read
        self._reply(kind, frame.call, body, lent)
        if taker is not None:
            self._give_away(taker)

    def _give_away(self, taker: Callable[[socket.socket], None]) -> None:
        try:
            taker(self.release())
        except Error as error:
            self.lose(PeerError(str(error.args[0]), cause="connection_lost", peer=self.peer))

    def _reply(self, kind: Kind, call: int, body: bytes, fds: Sequence[int]) -> None:
        try:
            self._send(kind, call, body, fds)
        except UsageError as error:
            self._reply(Kind.FAILURE, call, self._explain(error), ())
        except Full as error:
            self.lose(PeerError(str(error.args[0]), cause="not_reading", peer=self.peer))
        except Error:
            logger.debug("a reply to %s was dropped: %s", self.peer, self.lost)

    def _explain(self, error: BaseException) -> bytes:
        expected = isinstance(error, Error)
        logger.log(
            logging.WARNING if self.lost is None else logging.DEBUG,  # nobody left to miss it
            "a request of %s failed: %s",
            self.peer,
            error,
            exc_info=None if expected else error,
        )
        text = str(error) if expected else f"{type(error).__name__}: {error}"
        return text.encode(errors="replace")[: min(MAX_FAILURE, self.limit)]

    # Sending, by anybody.

    def _send(self, kind: Kind, call: int, body: bytes, fds: Sequence[int]) -> None:
        self._check(body, fds)
        try:
            self._outbox.send(encode(kind, call, body, len(fds)), fds)
        except PeerError as error:
            self.lose(error)
            raise self._gone(self.lost or error) from error
        if self._outbox.rest:
            with self._lock:
                self._arm()

    def _check(self, body: bytes, fds: Sequence[int]) -> None:
        if len(body) > self.limit:
            raise UsageError(
                f"a message of {len(body)} bytes is above the limit of {self.limit}",
                cause="too_long",
            )
        if fds and not self._unix:
            raise UsageError("descriptors travel over unix sockets only", cause="bad_descriptor")
        if len(fds) > MAX_FDS:
            raise UsageError(
                f"{len(fds)} descriptors in one message, {MAX_FDS} at most", cause="bad_descriptor"
            )

    def _flush(self) -> None:
        try:
            self._outbox.flush()
        except PeerError as error:
            self.lose(error)

    # State of the poller and of the socket.

    def _arm(self) -> None:
        """Makes the poller watch for what nobody else does. Under the lock, so it stays true."""
        if self._watched and self._poller is not None:
            reading = 0 if self._calls.led else select.EPOLLIN
            writing = select.EPOLLOUT if self._outbox.rest else 0
            self._poller.arm(self._fd, reading | writing)

    def _unwatch(self) -> None:
        if self._watched and self._poller is not None:
            self._poller.unregister(self._fd)
        self._watched = False

    def _shut(self) -> None:
        self._outbox.close()
        self._inbox.close()
        self._sock.close()

    def _tell(self, told: Callable[[Connection], None] | None) -> None:
        try:
            if told is not None:
                told(self)
        except Exception:
            logger.exception("on_lost of the connection to %s failed", self.peer)

    def _gone(self, why: Error) -> Error:
        """A fresh error for one caller, caused by what ended the connection."""
        text = str(why.args[0])
        if isinstance(why, ClosedError):
            return type(why)(text, cause=why.cause, peer=self.peer)
        if why.cause == "tls":  # it never was one, or somebody meddled with it
            error = type(why)(text, cause="tls", peer=self.peer)
        else:
            text = f"connection lost: {text}"
            error = PeerError(text, cause="connection_lost", peer=self.peer)
        error.__cause__ = why
        return error


def _without_frames(error: Error) -> Error:
    """It is kept, and must not keep what stood in the frames that it and its causes went through:
    this connection, or descriptors that were lent to a reply."""
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
    return error


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
