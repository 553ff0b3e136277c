"""The sending half of a connection's socket: never blocks, keeps a bounded rest. Thread-safe."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections import deque
from collections.abc import Sequence

from ..errors import Error, Full, PeerError, UsageError
from .descriptors import close_all, pack

__all__ = ["CAPACITY", "Outbox"]

# Bytes a peer may leave unread beyond what the kernel buffers.
CAPACITY = 64 << 20

# What sendmsg says about descriptors it was given, as opposed to the connection.
_BAD_DESCRIPTORS: dict[int, tuple[type[Error], str]] = {
    errno.EBADF: (UsageError, "bad_descriptor"),
    errno.EINVAL: (UsageError, "bad_descriptor"),
    errno.EMFILE: (Full, "descriptors"),
    errno.ETOOMANYREFS: (Full, "descriptors"),
}


class Outbox:
    """Frames leave whole and in order, whichever threads send them."""

    def __init__(self, sock: socket.socket, capacity: int = CAPACITY) -> None:
        self._sock = sock
        self._capacity = capacity
        self._lock = threading.Lock()
        # What waits for the peer to read; others may look whether it is empty. Its descriptors are
        # owned duplicates, because what a caller lends may be closed before its turn comes. They
        # leave with the first byte: an entry whose first byte is gone has none.
        self.rest: deque[tuple[memoryview, list[int]]] = deque()
        self._size = 0
        self._closed = False

    def send(self, data: bytes, fds: Sequence[int] = ()) -> None:
        """Sends one frame, or keeps what the kernel does not take. Descriptors are borrowed.

        Raises Full and UsageError with nothing sent, PeerError when the connection is broken.
        """
        with self._lock:
            self._check(len(data))
            try:
                sent = 0 if self.rest else self._push(data, fds)
                if sent < len(data):
                    self._keep(memoryview(data)[sent:], () if sent else fds)
            except OSError as error:
                raise _translated(error, bool(fds)) from error

    def flush(self) -> None:
        """Sends as much of the rest as the kernel takes. Raises PeerError."""
        with self._lock:
            try:
                while self.rest and not self._closed and self._flush_first():
                    pass
            except OSError as error:
                raise _translated(error, False) from error

    def close(self) -> None:
        """Drops the rest; later sends are refused."""
        with self._lock:
            self.abandon()

    def abandon(self) -> None:
        """Closes what it owns without taking the lock, which a forked child may find taken."""
        self._closed = True
        for _, fds in self.rest:
            close_all(fds)
        self.rest.clear()

    def _check(self, size: int) -> None:
        if self._closed:
            raise PeerError("the connection is closed", cause="connection_lost")
        if self._size + size > self._capacity:
            raise Full(
                f"the peer has not read {self._size} bytes; no room for {size} more",
                cause="send_buffer",
            )

    def _push(self, data: bytes | memoryview, fds: Sequence[int]) -> int:
        try:
            if fds:
                return self._sock.sendmsg([data], pack(fds), socket.MSG_NOSIGNAL)
            return self._sock.send(data, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0

    def _keep(self, data: memoryview, fds: Sequence[int]) -> None:
        owned: list[int] = []
        try:
            owned.extend(map(os.dup, fds))
        except OSError:
            close_all(owned)
            raise
        self.rest.append((data, owned))
        self._size += len(data)

    def _flush_first(self) -> bool:
        """Whether the kernel took all of the first entry."""
        data, fds = self.rest[0]
        sent = self._push(data, fds)
        if not sent:
            return False
        self._size -= sent
        if sent == len(data):
            self.rest.popleft()
        else:
            self.rest[0] = (data[sent:], [])
        close_all(fds)
        return sent == len(data)


def _translated(error: OSError, with_fds: bool) -> Error:
    if with_fds and error.errno in _BAD_DESCRIPTORS:
        kind, cause = _BAD_DESCRIPTORS[error.errno]
        return kind(f"cannot send these descriptors: {error.strerror}", cause=cause)
    return PeerError(f"sending failed: {error}", cause="connection_lost")
