"""Who connected and has not shaken hands over TLS yet."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import log
from ..errors import ClosedError, Error

if TYPE_CHECKING:
    from .poller import Poller
    from .tls import Tls

__all__ = ["Guest"]

logger = log.get("kvferry.rpc")


class Guest:
    """An accepted socket, owned until it has become a plain end, which is given to `then`.

    To a poller it is like a connection that owes something: it takes a step of the handshake when
    the socket is ready, and is lost when its time is up.

    lost  why it is over, or None
    """

    authenticated = True

    def __init__(
        self, sock: socket.socket, tls: Tls, poller: Poller, then: Callable[[socket.socket], None]
    ) -> None:
        self._wrapped, self._steps = tls.receive(sock)
        self._fd = sock.fileno()
        self._tls = tls
        self._poller = poller
        self._then = then
        self._lock = threading.Lock()
        self._over = False

    @property
    def awaited(self) -> str | None:
        return None if self._over else "its certificate"

    def attach(self) -> None:
        """Take turns from here on. Raises ClosedError."""
        with self._lock:
            self._poller.register(self._fd, self)
            self._poller.arm(self._fd, select.EPOLLIN)

    def turn(self) -> None:
        try:
            if self._step():
                self._then(self._tls.relay(self._wrapped))
        except Error as error:
            self.lose(error)

    def lose(self, why: Error) -> None:
        with self._lock:
            if not self._over:
                self._leave()
            self._wrapped.sock.close()
        if not isinstance(why, ClosedError):
            logger.info("a connection of %s was refused: %s", self._wrapped.peer, why)

    def close(self) -> None:
        self.lose(ClosedError("the engine was closed", cause="closed"))

    def abandon(self) -> None:
        """In a forked child: close what was inherited."""
        self._over = True
        self._wrapped.sock.close()

    def _step(self) -> bool:
        """Whether that was the last one, and the socket is the caller's."""
        with self._lock:
            if self._over:
                return False
            wanted = next(self._steps, None)
            if wanted is not None:
                self._poller.arm(self._fd, wanted)  # POLLIN is EPOLLIN, and so is POLLOUT
                return False
            self._leave()
            return True

    def _leave(self) -> None:
        self._over = True
        self._poller.unregister(self._fd)
