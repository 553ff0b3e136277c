"""TLS between hosts: both sides of a TCP connection show a certificate of one authority.

Nothing else here knows of it. A relay stands behind the socket that an engine uses:

    engine | plain end ==== a pair of unix sockets ==== relay ==== TCP, TLS 1.3 ==== peer

A handshake takes no thread while it waits, so strangers cost a descriptor each. Who has shaken
hands costs a thread for each connection (relay.py), which ends with it.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from ..address import TcpAddress
from ..config import Options
from ..errors import ClosedError, Error, RightsError, Timeout, UsageError
from . import peer
from .greeting import Steps, Wrapped, greet, wrap
from .relay import Relay
from .token import exposure

__all__ = ["Tls", "load"]

PATIENCE = 10.0  # seconds that a handshake may take who dials
JOIN_TIME = 1.0  # seconds in which relays may send what they still have, when an engine closes


def load(options: Options, name: str = "") -> Tls | None:
    """What `options` say of TLS; None: nothing. `name` is for the names of threads.

    Raises UsageError("tls") when they say half of it, or the files are not what they should be, and
    RightsError("tls") when others than this user may read the key.
    """
    files = {
        "KVFERRY_TLS_CERT": options.tls_cert,
        "KVFERRY_TLS_KEY": options.tls_key,
        "KVFERRY_TLS_CA": options.tls_ca,
    }
    missing = [variable for variable, file in files.items() if file is None]
    if len(missing) == len(files):
        return None
    cert, key, ca = files.values()
    if cert is None or key is None or ca is None:
        raise UsageError(
            f"TLS takes a certificate, a key and an authority: {', '.join(missing)} is missing",
            cause="tls",
        )
    server, client = (
        _context(protocol, cert, key, ca)
        for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
    )
    server.num_tickets = 0  # nobody resumes anything
    client.check_hostname = options.tls_check_host
    return Tls(server, client, name)


class Tls:
    """The TLS of one engine, and the relays of its connections. Thread-safe."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, name: str = "") -> None:
        self._server = server
        self._client = client
        self._name = f"kvferry-{name}-tls"
        self._lock = threading.Lock()
        self._relays: set[Relay] = set()
        self._closed = False

    def receive(self, sock: socket.socket) -> tuple[Wrapped, Steps]:
        """A connection that was accepted, and the steps of its handshake, which never block."""
        wrapped = wrap(sock, self._server, peer.name(sock))
        return wrapped, greet(wrapped)

    def dial(self, sock: socket.socket, to: TcpAddress, timeout: float) -> socket.socket:
        """Shake hands over a connection `to` a peer, which is taken over; the plain end of it.

        The certificate is to name the host, as it was dialled, as one of its subject alternative
        names, unless Options.tls_check_host is off. Blocks for `timeout` seconds, and 10, at most.
        Raises RightsError("tls"), PeerError("tls"), Timeout("connect_timeout") or ClosedError.
        """
        deadline = time.monotonic() + min(timeout, PATIENCE)
        with ExitStack() as undo:
            undo.callback(sock.close)
            host = to.host.partition("%")[0]  # a zone is of this host alone
            asked = host if self._client.check_hostname else None
            wrapped = wrap(sock, self._client, str(to), asked)
            ready = select.poll()
            for wanted in greet(wrapped):
                ready.register(sock, wanted)
                if not ready.poll(max(deadline - time.monotonic(), 0) * 1000):
                    raise Timeout(
                        "no TLS handshake in time; does the peer have TLS?",
                        cause="connect_timeout",
                        peer=str(to),
                    )
            undo.pop_all()
        return self.relay(wrapped)

    def relay(self, wrapped: Wrapped) -> socket.socket:
        """The plain end of a connection that has shaken hands, which is taken over.

        Raises ClosedError, or NoMemory when there is no thread or descriptor; it is closed then.
        """
        with ExitStack() as undo:
            undo.callback(wrapped.sock.close)
            relay = Relay(wrapped, self._done)
            undo.callback(relay.abandon)
            with self._lock:
                if self._closed:
                    raise ClosedError("the engine was closed", cause="closed")
                self._relays.add(relay)
            undo.callback(self._done, relay)
            plain = relay.start(self._name)
            undo.pop_all()
        return plain

    def close(self) -> None:
        """End every relay; what they still have to send they may send for a second. Idempotent."""
        with self._lock:
            self._closed = True
            relays = list(self._relays)
        deadline = time.monotonic() + JOIN_TIME
        for relay in relays:
            relay.join(max(deadline - time.monotonic(), 0))
        for relay in relays:
            relay.cut()
        for relay in relays:
            relay.join(JOIN_TIME)

    def forked(self) -> None:
        """In a forked child: close inherited descriptors; nothing is said to anybody."""
        self._lock = threading.Lock()
        self._closed = True
        for relay in list(self._relays):
            relay.abandon()
        self._relays.clear()

    def _done(self, relay: Relay) -> None:
        with self._lock:
            self._relays.discard(relay)


def _context(protocol: int, cert: Path, key: Path, ca: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.hostname_checks_common_name = False
    _load_authority(context, ca)
    _load_certificate(context, cert, key)
    return context


def _load_authority(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except OSError as error:
        raise _unusable("authority", ca, error) from error


def _load_certificate(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    try:
        fd = os.open(key, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unusable("key", key, error) from error
    try:
        trouble = exposure(key, os.fstat(fd))
        if trouble is not None:
            raise RightsError(f"TLS key {key} {trouble[0]}; {trouble[1]}", cause="tls")
        # What is read is what was checked, whatever the name points to by now.
        context.load_cert_chain(cert, f"/proc/self/fd/{fd}", password=_ask_nobody)
    except Error:
        raise
    except (OSError, ValueError) as error:
        raise _unusable("certificate", f"{cert} with key {key}", error) from error
    finally:
        os.close(fd)


def _ask_nobody() -> str:
    raise ValueError("the key is encrypted, and there is nobody to ask")


def _unusable(what: str, file: object, error: Exception) -> UsageError:
    why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return UsageError(f"TLS {what} {file} cannot be used: {why}", cause="tls")
