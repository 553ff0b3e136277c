"""A thread between a plain socket pair and a TCP connection with TLS over it.

              said: encrypted, then sent
    plain end =====> inner | relay | sock =====> peer
              <=====                      <=====
              heard: decrypted, then delivered

Each direction holds one piece, and takes the next when that is gone: who does not read holds up
whoever writes, as over TCP itself, and neither direction waits for the other. The end of one
direction is passed on behind the last byte, the end of the connection at once.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

from .. import log
from ..errors import NoMemory
from .greeting import Wrapped, what_broke
from .plain_end import PlainEnd

__all__ = ["Relay"]

SMALL = 16 << 10  # bytes of a buffer of a connection that never filled one: most of them
PIECE = 128 << 10  # of one that did
TURN = 16  # steps in one direction before the other has a turn
LINGER = 5.0  # seconds to send what was said by who is gone, to a peer that does not read

_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL

logger = log.get("kvferry.rpc")


class Relay:
    """One connection's, which it owns from here on. Ends by itself; `at_end` is called then."""

    def __init__(self, wrapped: Wrapped, at_end: Callable[[Relay], None]) -> None:
        try:
            plain, self._inner = socket.socketpair()
        except OSError as error:
            raise NoMemory(f"no sockets for TLS: {error.strerror}", cause="descriptors") from error
        self._peer = wrapped.peer
        self._sock = wrapped.sock
        self._tls = wrapped.tls
        self._incoming, self._outgoing = wrapped.incoming, wrapped.outgoing
        self._at_end = at_end
        self._inner.setblocking(False)
        self._room = memoryview(bytearray(SMALL))  # plain, on its way out; sealed, on its way in
        self._read = memoryview(bytearray(SMALL))  # plain, on its way in
        self._sealed = memoryview(b"")  # still to be sent
        self._clear = self._read[:0]  # still to be delivered
        self._says = self._parts = True  # who is here may say more; and its end is to be told
        self._hears = True  # the peer may say more
        self._dry = False  # of what came there is no whole record left
        self._near = self._far = True  # they are not gone
        self._until: float | None = None  # when to give up sending
        self._plain: PlainEnd | None = PlainEnd(plain, wrapped.sock)
        self._told = weakref.ref(self._plain)
        self._thread: threading.Thread | None = None

    def start(self, name: str) -> PlainEnd:
        """The plain end, which is the caller's. Raises NoMemory."""
        plain, self._plain = self._plain, None
        assert plain is not None, "it starts once"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            plain.close()
            raise NoMemory(f"no thread for TLS: {error}", cause="no_threads") from error
        self._thread = thread
        return plain

    def join(self, timeout: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def cut(self) -> None:
        """End it now, whatever is still on its way."""
        for end in (self._sock, self._inner):
            _shut(end, socket.SHUT_RDWR)

    def abandon(self) -> None:
        """It never began, or not in this process: only close what it has."""
        for end in (self._plain, self._inner, self._sock):
            if end is not None:
                end.close()

    def _run(self) -> None:
        try:
            while self._is_needed():
                said, heard = _go(self._say), _go(self._hear)
                if not (said or heard or self._wait()):
                    break
        except Exception:
            logger.exception("the TLS relay of %s failed", self._peer)
        finally:
            _shut(self._sock, socket.SHUT_RDWR)
            self._sock.close()
            self._inner.close()
            self._at_end(self)

    def _is_needed(self) -> bool:
        leaving = self._says or self._parts or self._sealed or self._outgoing.pending
        return bool(leaving or self._hears or self._clear)

    # ---- out: each tells whether something moved ----

    def _say(self) -> bool:
        if not self._sealed and self._outgoing.pending:
            self._sealed = memoryview(self._outgoing.read())
        if self._sealed:
            return self._send()
        if self._says:
            return self._encrypt()
        return self._part()

    def _send(self) -> bool:
        try:
            sent = self._sock.send(self._sealed, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except OSError:
            self._lose_peer()
            return True
        self._sealed = self._sealed[sent:]
        if not (self._sealed or self._says or self._parts):
            _shut(self._sock, socket.SHUT_WR)
        return True

    def _encrypt(self) -> bool:
        try:
            size = self._inner.recv_into(self._room)
        except BlockingIOError:
            return False
        except OSError:
            size = 0
        self._says = size > 0
        rest = self._taken(size)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            self._break(error)
        return True

    def _part(self) -> bool:
        """Tell the peer, behind all else, that nothing more comes. Once."""
        # OpenSSL looks for the peer's answer and takes everything else for a mistake: only when
        # nothing is there to be looked at.
        unread = self._clear or self._incoming.pending or self._tls.pending()
        if not self._parts or (self._hears and unread):
            return False
        self._parts = False
        with suppress(ssl.SSLError):  # no answer is there, or the session is broken anyhow
            self._tls.unwrap()
        self._sealed = memoryview(self._outgoing.read())
        return True

    # ---- in ----

    def _hear(self) -> bool:
        if self._clear:
            return self._deliver()
        if not self._hears or (self._dry and not self._receive()):
            return False
        self._decrypt()
        return True

    def _receive(self) -> bool:
        try:
            size = self._sock.recv_into(self._room)
        except BlockingIOError:
            return False
        except OSError:
            size = 0
        if size:
            self._incoming.write(self._taken(size))
        else:
            self._incoming.write_eof()
        self._dry = False
        return True

    def _taken(self, size: int) -> memoryview:
        """What was read into the room, of which there is more the next time if that was full."""
        taken = self._room[:size]
        if size == len(self._room) < PIECE:
            self._room = memoryview(bytearray(PIECE))
        return taken

    def _decrypt(self) -> None:
        size, most = 0, len(self._room)
        if len(self._read) < most:
            self._read = memoryview(bytearray(most))
        try:
            while size < most:
                got = int(self._tls.read(most - size, self._read[size:]))
                if not got:
                    self._hears = False
                    break
                size += got
        except ssl.SSLWantReadError:
            self._dry = True
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._hears = False
        except ssl.SSLError as error:
            self._break(error)
        self._clear = self._read[:size]
        self._end_hearing()

    def _deliver(self) -> bool:
        try:
            sent = self._inner.send(self._clear, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except OSError:
            self._lose_reader()
            return True
        self._clear = self._clear[sent:]
        self._end_hearing()
        return True

    def _end_hearing(self) -> None:
        if not self._hears and not self._clear:
            _shut(self._inner, socket.SHUT_WR)

    # ---- ends ----

    def _lose_peer(self) -> None:
        """What it is told does not arrive. It may still be heard."""
        self._far = False
        self._says = self._parts = False
        self._sealed = self._sealed[:0]
        self._outgoing.read()

    def _lose_reader(self) -> None:
        """Nobody hears the peer any more. What was said before is still sent, for a while."""
        self._near = self._hears = False
        self._clear = self._clear[:0]
        self._until = time.monotonic() + LINGER

    def _break(self, error: ssl.SSLError) -> None:
        """No more of this can be believed; OpenSSL has an alert ready."""
        fault = what_broke(error, self._peer)
        logger.info("TLS with %s broke: %s", self._peer, fault)
        plain = self._told()
        if plain is not None:
            plain.fault = fault
        self._says = self._parts = self._hears = False
        self._until = time.monotonic() + LINGER

    def _wait(self) -> bool:
        """Until something can be moved; False when it has been long enough."""
        ready = select.poll()
        reading = select.POLLIN if self._says and not self._sealed else 0
        if self._near:
            ready.register(self._inner, reading | (select.POLLOUT if self._clear else 0))
        hearing = select.POLLIN if self._hears and not self._clear else 0
        if self._far:
            ready.register(self._sock, hearing | (select.POLLOUT if self._sealed else 0))
        left = None if self._until is None else self._until - time.monotonic()
        if left is not None and left <= 0:
            return False
        inner = self._inner.fileno()
        for fd, events in ready.poll(None if left is None else left * 1000):
            if not events & _GONE:
                continue
            if fd == inner:
                self._lose_reader()
            else:
                self._lose_peer()
        return True


def _go(step: Callable[[], bool]) -> bool:
    """As many steps as move something, and are not too many; whether any did."""
    moved = 0
    while moved < TURN and step():
        moved += 1
    return moved > 0


def _shut(sock: socket.socket, how: int) -> None:
    with suppress(OSError):  # it is over already, or closed
        sock.shutdown(how)
