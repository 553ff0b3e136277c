"""The TLS handshake of one connection, a step at a time.

    client                          server
      | -- hello ------------------->  |
      | <-- hello, its certificate --  |
      |  checks authority, dates, name |
      | -- its certificate --------->  |
      |                                |  checks authority, dates
      | <-- one byte, encrypted -----  |

In TLS 1.3 a client is done before the server has looked at its certificate. With the last byte it
knows how that went, before it says anything.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from ..errors import Error, PeerError, RightsError
from .wire import TLS_ALERTS

__all__ = ["Steps", "Wrapped", "greet", "what_broke", "wrap"]

WELCOME = b"\x4b"

# To a client that does not speak TLS: fatal, protocol version. OpenSSL would say nothing.
_NOT_IN_PLAIN = TLS_ALERTS[-1] + bytes([0, 2, 2, 70])
_PLAIN = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"}

_READ_SIZE = 16 << 10
_MOST = 512 << 10  # bytes of a handshake; OpenSSL's own bounds of its messages are lower

_Done = TypeVar("_Done")

# What to wait for before the next step: select.POLLIN or POLLOUT.
Steps = Generator[int, None, None]


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A connected socket that does not block, and the TLS over it, whose bytes pass through here.

    incoming  from the socket, encrypted
    outgoing  for the socket, encrypted
    peer      its address, for messages
    """

    sock: socket.socket
    tls: ssl.SSLObject
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    peer: str


def wrap(
    sock: socket.socket, context: ssl.SSLContext, name: str, host: str | None = None
) -> Wrapped:
    """TLS with `name` as the side that `context` is for; `host` is whom a client wants to meet.

    The socket stays the caller's. Raises PeerError("tls") for a host that cannot be asked for.
    """
    sock.setblocking(False)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    serves = context.protocol == ssl.PROTOCOL_TLS_SERVER
    try:
        tls = context.wrap_bio(incoming, outgoing, server_side=serves, server_hostname=host)
    except (ValueError, TypeError, ssl.SSLError) as error:  # as Python's ssl says it
        text = f"no certificate can be for {host!r}: {error}"
        raise PeerError(text, cause="tls", peer=name) from error
    return Wrapped(sock, tls, incoming, outgoing, name)


def greet(wrapped: Wrapped) -> Steps:
    """Shake hands; yields what to wait for, and ends when both know that they may talk.

    Raises RightsError or PeerError, both "tls", after the peer was told as far as it can be.
    """
    try:
        yield from _through(wrapped, wrapped.tls.do_handshake)
        if wrapped.tls.server_side:
            wrapped.tls.write(WELCOME)
            yield from _send(wrapped)
        elif (yield from _through(wrapped, lambda: wrapped.tls.read(1))) != WELCOME:
            raise _hung_up(wrapped.peer)
    except OSError as error:  # of OpenSSL, too
        if isinstance(error, Error):
            raise
        _tell(wrapped, error)
        raise what_broke(error, wrapped.peer) from error


def _through(wrapped: Wrapped, step: Callable[[], _Done]) -> Generator[int, None, _Done]:
    room = _MOST
    while room > 0:
        try:
            done = step()
        except ssl.SSLWantReadError:
            yield from _send(wrapped)
        else:
            yield from _send(wrapped)
            return done
        data = yield from _receive(wrapped.sock)
        if not data:
            raise _hung_up(wrapped.peer)
        room -= len(data)
        wrapped.incoming.write(data)
    raise PeerError(f"{_MOST} bytes are no TLS handshake", cause="tls", peer=wrapped.peer)


def _send(wrapped: Wrapped) -> Steps:
    rest = memoryview(wrapped.outgoing.read())
    while rest:
        try:
            rest = rest[wrapped.sock.send(rest, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            yield select.POLLOUT


def _receive(sock: socket.socket) -> Generator[int, None, bytes]:
    while True:
        try:
            return sock.recv(_READ_SIZE)
        except BlockingIOError:
            yield select.POLLIN


def _tell(wrapped: Wrapped, error: OSError) -> None:
    """The alert, if there is one; the connection ends in either case."""
    alert = wrapped.outgoing.read()
    if isinstance(error, ssl.SSLError) and error.reason in _PLAIN:
        alert = _NOT_IN_PLAIN
    try:
        wrapped.sock.send(alert, socket.MSG_NOSIGNAL)
    except OSError:
        return


def what_broke(error: OSError, name: str) -> RightsError | PeerError:
    """What OpenSSL met, in our words: a certificate is a matter of rights."""
    reason = str(getattr(error, "reason", None) or error).lower().replace("_", " ")
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the peer's certificate is refused: {error.verify_message.rstrip('.')}"
        return RightsError(text, cause="tls", peer=name)
    if "did not return a certificate" in reason:
        return RightsError("the peer shows no certificate", cause="tls", peer=name)
    _, alert, said = reason.partition("alert ")
    if alert and ("certificate" in said or said == "unknown ca"):
        return RightsError(
            f"the peer refuses this engine's certificate: {said}", cause="tls", peer=name
        )
    if isinstance(error, ssl.SSLEOFError) or not isinstance(error, ssl.SSLError):
        return _hung_up(name)
    if alert:
        return PeerError(f"the peer broke off TLS: {said}", cause="tls", peer=name)
    return PeerError(f"this is no TLS 1.3: {reason}", cause="tls", peer=name)


def _hung_up(name: str) -> PeerError:
    return PeerError(
        "the peer hung up in the TLS handshake; without TLS itself, it needs KVFERRY_TLS_CERT, "
        "KVFERRY_TLS_KEY and KVFERRY_TLS_CA, too",
        cause="tls",
        peer=name,
    )
