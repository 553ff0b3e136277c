"""The receiving half of a connection's socket. Not thread-safe: who holds the lead reads."""

from __future__ import annotations

import socket
from collections import deque

from ..errors import Error, PeerError
from .descriptors import ROOM, close_all, unpack
from .plain_end import PlainEnd
from .wire import Decoder, Frame

__all__ = ["Arrival", "Inbox"]

# Small enough to be fair among connections, large enough for almost any message.
READ_SIZE = 64 << 10

# As plain numbers: arithmetic on the flags of the socket module costs more than a system call.
_CLOEXEC = int(socket.MSG_CMSG_CLOEXEC)
_TRUNCATED = int(socket.MSG_CTRUNC)


# A frame and its descriptors; whoever takes it out of the inbox owns them.
Arrival = tuple[Frame, list[int]]


class Inbox:
    """Reads without blocking. Owns the descriptors of frames that are not complete yet."""

    def __init__(self, sock: socket.socket, limit: int) -> None:
        self.decoder = Decoder(limit)
        self._sock = sock
        self._unix = sock.family == socket.AF_UNIX
        self._unclaimed: deque[int] = deque()

    def read(self) -> list[Arrival]:
        """What one read of the socket completes; empty when nothing is there.

        Raises PeerError when the peer is gone ("connection_lost") or broke a rule ("protocol").
        """
        try:
            data = self._receive_unix() if self._unix else self._sock.recv(READ_SIZE)
        except BlockingIOError:
            return []
        except PeerError:  # is an OSError too
            raise
        except OSError as error:
            raise PeerError(f"receiving failed: {error}", cause="connection_lost") from error
        if not data:
            raise self._end()
        return self._claim(self.decoder.feed(data))

    def _end(self) -> Error:
        if isinstance(self._sock, PlainEnd) and self._sock.fault is not None:
            return self._sock.fault
        if self.decoder.alerted:
            return PeerError(
                "the peer speaks TLS alone: give this engine KVFERRY_TLS_CERT, KVFERRY_TLS_KEY and "
                "KVFERRY_TLS_CA",
                cause="tls",
            )
        amid = " in the middle of a frame" if self.decoder.amid else ""
        return PeerError(f"the peer closed the connection{amid}", cause="connection_lost")

    def close(self) -> None:
        close_all(self._unclaimed)
        self._unclaimed.clear()

    def _receive_unix(self) -> bytes:
        data, ancillary, flags, _ = self._sock.recvmsg(READ_SIZE, ROOM, _CLOEXEC)
        if ancillary:
            self._unclaimed.extend(unpack(ancillary))
        if flags & _TRUNCATED:
            raise PeerError(
                "descriptors were lost: too many in one message, or for this process (ulimit -n)",
                cause="protocol",
            )
        return data

    def _claim(self, frames: list[Frame]) -> list[Arrival]:
        """Descriptors come with the first byte of their frame, neither later nor without one."""
        claimed = 0
        for frame in frames:
            claimed += frame.fds
        if not claimed <= len(self._unclaimed) <= claimed + self.decoder.claim:
            raise PeerError(
                f"{len(self._unclaimed)} descriptors came for frames that claim {claimed}",
                cause="protocol",
            )
        return [(frame, [self._unclaimed.popleft() for _ in range(frame.fds)]) for frame in frames]
