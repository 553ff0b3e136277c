"""The socket that an engine uses where its connection is under TLS.

In truth it is one of a pair within this process. Nobody may take that for a peer of this host,
with a process and a user that the kernel vouches for: so it says of itself what holds for the
connection behind it.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

from ..errors import Error

__all__ = ["PlainEnd"]


class PlainEnd(socket.socket):
    """A connected socket whose bytes travel encrypted. What is asked of it is of the TCP socket.

    fault  what broke the TLS of it, if that was not the peer's end
    """

    def __init__(self, sock: socket.socket, behind: socket.socket) -> None:
        super().__init__(fileno=sock.detach())
        self._behind = behind
        self._family = behind.family  # also when it is closed
        self.fault: Error | None = None

    @property
    def family(self) -> socket.AddressFamily:
        return self._family

    def getpeername(self) -> Any:
        return self._behind.getpeername()

    def getsockname(self) -> Any:
        return self._behind.getsockname()

    def setsockopt(self, *option: Any) -> None:
        with suppress(OSError):  # it is over, which reading will tell
            self._behind.setsockopt(*option)

    def getsockopt(self, *option: Any) -> Any:
        return self._behind.getsockopt(*option)
