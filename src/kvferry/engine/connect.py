"""From an address to an authenticated control connection.

A peer on this host is met twice: at its address, where it proves who it is and names its door, an
abstract unix socket; then at the door, where it proves it again and descriptors can travel. The
first connection is closed. Connections for data and for beats are made at its address, too, and
handed to those who use them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..address import Address, TcpAddress, UnixAddress
from ..config import Options
from ..errors import Error, PeerError, Timeout
from ..link import Facts
from ..rpc import LIMIT, Connection, Poller, auth, close_all, dial, dial_abstract
from ..runtime import HostRuntime
from ..runtime import Mapping as MappedMemory
from . import messages
from .control import Control, ask
from .handshake import ClientHandshake
from .pulse import map_pulse

if TYPE_CHECKING:
    from ..rpc.tls import Tls

__all__ = ["Identity", "Met", "dial_again", "meet", "tls_of"]


def tls_of(options: Options, name: str) -> Tls | None:
    """As rpc.tls.load, but OpenSSL is loaded by those alone who ask for it."""
    if not (options.tls_cert or options.tls_key or options.tls_ca):
        return None
    from ..rpc import tls

    return tls.load(options, name)


class Identity(NamedTuple):
    """What an engine tells of itself.

    tls       under which it speaks TCP; None: in the clear
    given_up  by a peer's epoch: tickets of connections to it that were lost
    """

    name: str
    facts: Facts
    token: bytes
    tls: Tls | None = None
    given_up: Mapping[int, Sequence[bytes]] = {}


class Met(NamedTuple):
    """A peer that proved itself."""

    control: Control
    connection: Connection
    facts: Facts


def meet(
    us: Identity,
    address: Address,
    poller: Poller,
    runtime: HostRuntime,
    deadline: float,
    call_timeout: float,
) -> Met:
    """Connect, prove, be proven to. Blocks at most until `deadline` of time.monotonic().

    Raises PeerError (unreachable, another version, gone), RightsError (token) or Timeout; nothing
    is left open then.
    """
    name = str(address)
    with contextlib.ExitStack() as undo:
        sock = _dial(us, address, deadline)
        connection, welcome, fds = _shake(us, sock, poller, name, deadline)
        undo.callback(connection.close)
        if not isinstance(address, UnixAddress) and _same_host(us.facts, welcome.facts):
            door = dial_abstract(welcome.door, _left(deadline, name))
            connection.close()
            connection, welcome, fds = _shake(us, door, poller, name, deadline)
            undo.callback(connection.close)
        facts = welcome.facts
        if isinstance(address, UnixAddress):
            # Whatever its namespace is called: a unix socket we met at passes descriptors.
            facts = msgspec.structs.replace(facts, network=us.facts.network)
        pulse = map_pulse(runtime, fds.pop(0)) if fds else None
        close_all(fds)
        control = _control(connection, welcome, pulse, name, call_timeout)
        undo.pop_all()
    return Met(control, connection, facts)


def dial_again(
    us: Identity,
    address: Address,
    purpose: str,
    ticket: bytes,
    epoch: int,
    poller: Poller,
    timeout: float,
) -> socket.socket:
    """One more connection to a peer that we met, for data or beats: proven, and the caller's.

    Blocks for at most `timeout` seconds. Raises PeerError, also when another epoch answers,
    RightsError or Timeout.
    """
    name, deadline = str(address), time.monotonic() + timeout
    sock = _dial(us, address, deadline)
    connection, welcome, fds = _shake(us, sock, poller, name, deadline, purpose, ticket)
    close_all(fds)
    with contextlib.ExitStack() as undo:
        undo.callback(connection.close)
        if welcome.facts.epoch != epoch:
            raise PeerError("the peer was started anew", cause="epoch", peer=name)
        sock = connection.release()
        undo.pop_all()
    return sock


def _dial(us: Identity, address: Address, deadline: float) -> socket.socket:
    name = str(address)
    sock = dial(address, _left(deadline, name))
    if us.tls is None or not isinstance(address, TcpAddress):
        return sock
    with contextlib.ExitStack() as undo:
        undo.callback(sock.close)
        left = _left(deadline, name)
        undo.pop_all()
    return us.tls.dial(sock, address, left)


def _shake(
    us: Identity,
    sock: socket.socket,
    poller: Poller,
    peer: str,
    deadline: float,
    purpose: str = messages.CONTROL,
    ticket: bytes = b"",
) -> tuple[Connection, messages.Welcome, list[int]]:
    connection = Connection(sock, _not_yet)
    connection.peer = peer
    with contextlib.ExitStack() as undo:
        undo.callback(connection.close)
        poller.watch(connection)
        handshake = ClientHandshake(us.token, us.facts.epoch, auth.new_nonce(), purpose)
        challenge, fds = ask(connection, handshake.hello, _left(deadline, peer), peer)
        close_all(fds)
        if not isinstance(challenge, messages.Challenge):
            raise _confused(peer)
        proved = handshake.prove(challenge)
        given_up = us.given_up.get(challenge.epoch, ()) if purpose == messages.CONTROL else ()
        proof = messages.Proof(proved, us.name, us.facts, ticket, [*given_up])
        welcome, fds = ask(connection, proof, _left(deadline, peer), peer)
        undo.callback(close_all, fds)
        if not isinstance(welcome, messages.Welcome):
            raise _confused(peer)
        handshake.check(welcome.proof)
        if welcome.facts.epoch != challenge.epoch:
            raise _confused(peer)  # the epoch is what the proof was about
        connection.limit = LIMIT
        connection.authenticated = True
        undo.pop_all()
    return connection, welcome, fds


def _same_host(ours: Facts, theirs: Facts) -> bool:
    return (ours.boot, ours.network) == (theirs.boot, theirs.network)


def _control(
    connection: Connection,
    welcome: messages.Welcome,
    pulse: MappedMemory | None,
    name: str,
    call_timeout: float,
) -> Control:
    ticket, epoch = welcome.ticket, welcome.facts.epoch
    with contextlib.ExitStack() as undo:
        if pulse is not None:
            undo.callback(pulse.close)
        pidfd = _pidfd(connection)
        undo.callback(close_all, () if pidfd is None else (pidfd,))
        try:
            control = Control(connection, ticket, pulse, pidfd, name, epoch, call_timeout)
        except OSError as error:
            if isinstance(error, Error):
                raise
            raise PeerError("it hung up", cause="connection_lost", peer=name) from error
        undo.pop_all()
    return control


def _pidfd(connection: Connection) -> int | None:
    """A descriptor of the peer's process, where the kernel and the namespaces allow one."""
    if connection.credentials is None:
        return None
    if (pidfd := connection.pidfd()) is not None:
        return pidfd
    pid, _ = connection.credentials
    # The peer answered our nonce over this connection, so it was alive, and its number its own, at
    # least until then; a reuse since shows as a lost connection.
    with contextlib.suppress(OSError):
        return os.pidfd_open(pid)
    return None


def _left(deadline: float, peer: str) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Timeout("connecting took too long", cause="connect_timeout", peer=peer)
    return left


def _not_yet(connection: Connection, body: bytes, fds: list[int]) -> tuple[bytes, list[int]]:
    for fd in fds:
        os.close(fd)
    raise PeerError("asked before it proved itself", cause="protocol", peer=connection.peer)


def _confused(peer: str) -> Error:
    return PeerError("unexpected answer in the handshake", cause="protocol", peer=peer)
