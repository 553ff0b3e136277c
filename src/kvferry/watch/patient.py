"""A request as it comes in: of so many bytes at most, within so many seconds."""

from __future__ import annotations

import io
import socket
import time
from typing import Any

__all__ = ["MOST", "PATIENCE", "Incoming"]

MOST = 16 << 10  # bytes of a request, all its headers among them
PATIENCE = 5.0  # seconds that it may take altogether


class Incoming(io.RawIOBase):
    """The end of what comes is also where a request becomes too long or too slow; `spoilt` then."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._left = MOST
        self._until = time.monotonic() + PATIENCE
        self.spoilt = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self._until - time.monotonic()
        if seconds <= 0 or not self._left:
            self.spoilt = True
            return 0
        self._socket.settimeout(seconds)
        try:
            count = self._socket.recv_into(buffer, min(len(buffer), self._left))
        except OSError:
            self.spoilt = True
            return 0
        self._left -= count
        return count
