"""Sockets to listen on and to call from. What they carry is nobody's business here."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator

from ..address import Address, TcpAddress, UnixAddress
from ..errors import NoMemory, PeerError, Timeout, UsageError

__all__ = ["BACKLOG", "dial", "dial_abstract", "listen", "listen_abstract"]

BACKLOG = 512
LOCK_TIME = 5.0  # seconds to wait for others who make sockets in the same directory

_NOT_OURS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}

Candidate = tuple[int, tuple[object, ...]]  # address family and socket address


def listen(address: Address) -> socket.socket:
    """A listening socket, which the caller owns, and with it the file of a unix address.

    A socket file that nobody listens on any more is replaced. Raises UsageError: "address_in_use",
    or "address" when it cannot be listened on at all.
    """
    return _listen_unix(address) if isinstance(address, UnixAddress) else _listen_tcp(address)


def dial(address: Address, timeout: float) -> socket.socket:
    """A connected socket, after at most `timeout` seconds; resolving a host name is not counted.

    Raises Timeout("connect_timeout"), or PeerError("unreachable").
    """
    if isinstance(address, UnixAddress):
        return _dial_unix(address.path, str(address), timeout)
    return _dial_tcp(address, timeout)


def listen_abstract() -> socket.socket:
    """A listening unix socket without a file; getsockname() is the name the kernel chose.

    Raises NoMemory("descriptors").
    """
    try:
        return _bind_unix("")
    except OSError as error:
        raise NoMemory(f"no socket to listen on: {error.strerror}", cause="descriptors") from error


def dial_abstract(name: bytes, timeout: float) -> socket.socket:
    """Connects to the getsockname() of listen_abstract(); blocks and raises as dial does."""
    return _dial_unix(name, f"abstract socket {name!r}", timeout)


# TCP


def _listen_tcp(address: TcpAddress) -> socket.socket:
    """On the first address of the host that this machine has."""
    try:
        candidates = _resolve(address, socket.AI_PASSIVE)
        sock = next(filter(None, map(_bind_if_ours, candidates)), None)
    except OSError as error:
        raise _cannot_listen(address, error) from error
    if sock is None:
        raise UsageError(f"{address} is not an address of this machine", cause="address")
    return sock


def _bind_if_ours(candidate: Candidate) -> socket.socket | None:
    family, where = candidate
    with contextlib.ExitStack() as undo:
        try:
            sock = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
        except OSError as error:
            if error.errno in _NOT_OURS:
                return None
            raise
        sock.listen(BACKLOG)
        undo.pop_all()
    return sock


def _dial_tcp(address: TcpAddress, timeout: float) -> socket.socket:
    try:
        candidates = _resolve(address)
    except OSError as error:
        raise _unreachable(str(address), error) from error
    deadline = time.monotonic() + timeout
    refusal: OSError = TimeoutError()
    for candidate in candidates:
        outcome = _try_tcp(candidate, deadline - time.monotonic())
        if isinstance(outcome, socket.socket):
            return outcome
        refusal = outcome
    raise _unreachable(str(address), refusal) from refusal


def _try_tcp(candidate: Candidate, timeout: float) -> socket.socket | OSError:
    try:
        return _connect_tcp(candidate, timeout)
    except OSError as error:
        return error


def _connect_tcp(candidate: Candidate, timeout: float) -> socket.socket:
    if timeout <= 0:
        raise TimeoutError
    family, where = candidate
    with contextlib.ExitStack() as undo:
        sock = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        sock.settimeout(timeout)
        sock.connect(where)
        if sock.getsockname() == sock.getpeername():
            # The kernel gave us the very port we dial: nobody listens there, we met ourselves.
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        sock.settimeout(None)
        undo.pop_all()
    return sock


def _resolve(address: TcpAddress, flags: int = 0) -> list[Candidate]:
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=flags
    )
    return [(family, where) for family, _, _, _, where in found]


# Unix


def _listen_unix(address: UnixAddress) -> socket.socket:
    try:
        with _locked(os.path.dirname(address.path)):
            _remove_stale(address)
            return _bind_unix(address.path)
    except OSError as error:
        raise _cannot_listen(address, error) from error


def _bind_unix(path: str) -> socket.socket:
    with contextlib.ExitStack() as undo:
        sock = undo.enter_context(_unix_socket())
        sock.bind(path)
        sock.listen(BACKLOG)
        undo.pop_all()
    return sock


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Keeps others from judging a socket stale that is bound and does not listen yet."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + LOCK_TIME
        while not _try_lock(fd):
            if time.monotonic() > deadline:
                raise BlockingIOError(errno.EAGAIN, f"{directory} stays locked by another process")
            time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_stale(address: UnixAddress) -> None:
    try:
        mode = os.lstat(address.path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EADDRINUSE, "the file is not a socket")
    try:
        _dial_unix(address.path, str(address), 1.0).close()
    except PeerError as error:
        if isinstance(error.__cause__, ConnectionRefusedError):
            os.unlink(address.path)
            return
    except Timeout:
        pass  # so busy that it is alive
    raise OSError(errno.EADDRINUSE, "somebody listens on it")


def _dial_unix(path: str | bytes, name: str, timeout: float) -> socket.socket:
    try:
        with contextlib.ExitStack() as undo:
            sock = undo.enter_context(_unix_socket())
            # A full backlog makes a non-blocking connect fail at once, so this one blocks.
            _set_send_timeout(sock, max(timeout, 1e-6))
            sock.connect(path)
            _set_send_timeout(sock, 0.0)
            undo.pop_all()
        return sock
    except BlockingIOError as error:
        raise _unreachable(name, TimeoutError()) from error
    except OSError as error:
        raise _unreachable(name, error) from error


def _set_send_timeout(sock: socket.socket, seconds: float) -> None:
    whole = int(seconds)
    timeval = struct.pack("@ll", whole, int((seconds - whole) * 1e6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)


def _unix_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


# Errors, translated once


def _cannot_listen(address: Address, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        why = "" if error.strerror == os.strerror(errno.EADDRINUSE) else f": {error.strerror}"
        return UsageError(f"{address} is in use{why}", cause="address_in_use")
    return UsageError(f"cannot listen on {address}: {error.strerror or error}", cause="address")


def _unreachable(name: str, error: OSError) -> PeerError | Timeout:
    if isinstance(error, TimeoutError):
        return Timeout("no connection in time", cause="connect_timeout", peer=name)
    why = error.strerror or str(error)
    return PeerError(f"cannot connect: {why}", cause="unreachable", peer=name)
