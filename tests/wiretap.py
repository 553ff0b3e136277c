"""Somebody on the network between two hosts, who hears everything and may meddle with it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType

# What becomes of bytes on their way; None: the connection is cut.
Meddle = Callable[[bytes], "bytes | None"]


class Wiretap:
    """Stands on a port of loopback before the TCP address `there`.

    heard   all that passed, in both directions
    meddle  settable; with what is on its way to the client
    """

    def __init__(self, there: tuple[str, int]) -> None:
        self.heard = bytearray()
        self.meddle: Meddle = bytes
        self._there = there
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def place(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.place)

    def cut(self) -> None:
        """Every connection, as they are."""
        for sock in list(self._sockets):
            _shut(sock, socket.SHUT_RDWR)

    def __enter__(self) -> Wiretap:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _shut(self._listener, socket.SHUT_RDWR)
        self._threads[0].join()
        self.cut()
        for thread in self._threads:
            thread.join()
        for sock in [self._listener, *self._sockets]:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            server = socket.create_connection(self._there)
            self._sockets += [client, server]
            for pair in ((client, server, False), (server, client, True)):
                thread = threading.Thread(target=self._pass_on, args=pair)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, to_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.heard += data
                passed = self.meddle(data) if to_client else data
                if passed is None:
                    break
                sink.sendall(passed)
        _shut(sink, socket.SHUT_WR)


def _shut(sock: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(how)
