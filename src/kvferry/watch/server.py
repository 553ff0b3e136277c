"""The page, and what it shows, by HTTP: for those who hold the key, and for no stranger.

thread "kvferry-http"      accepts; turns away whom there is no thread for
one a connection           one request each; PLAIN of them at once
                           a stream of events counts apart: STREAMS of them at once
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from .. import log
from ..address import TcpAddress, parse
from ..errors import UsageError
from .request import BUSY, Request
from .routes import Routes
from .watcher import Watcher

__all__ = ["Server"]

logger = log.get("kvferry.watch")

PLAIN, STREAMS = 16, 16
BACKLOG = 64
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class Server:
    """Serves until it is closed. Raises UsageError for an address that is none or is taken.

    address  host:port; port 0: a free one
    key      whoever shows it is answered
    watcher  what is shown; closed with it, also where it cannot be served
    """

    def __init__(self, address: str, key: str, watcher: Watcher) -> None:
        try:
            self._socket = _listening(address)
        except UsageError:
            watcher.close()
            raise
        host, port = self._socket.getsockname()[:2]
        self.where = TcpAddress(host, port)
        self._over = threading.Event()
        self._watcher = watcher
        self._routes = Routes(key, port, watcher, self._over)
        self._plain = threading.BoundedSemaphore(PLAIN)
        self._streams = threading.BoundedSemaphore(STREAMS)
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._thread = threading.Thread(target=self._accept, name="kvferry-http", daemon=True)
        self._thread.start()

    @property
    def page(self) -> str:
        """Its address for a browser, without the key."""
        return f"http://{self.where}"

    def close(self) -> None:
        """Hang up on everybody. Idempotent."""
        self._over.set()
        self._watcher.close()  # which ends the streams' waiting
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        with self._lock:
            still = dict(self._open)
        for sock in still.values():
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in still:
            thread.join()

    # ---- threads ----

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                sock, _ = self._socket.accept()
            except OSError as error:
                if not self._over.wait(0.1):
                    logger.info("nobody was accepted: %s", error)
                continue
            if not self._plain.acquire(blocking=False):
                _turn_away(sock)
            else:
                self._begin(sock)

    def _begin(self, sock: socket.socket) -> None:
        thread = threading.Thread(target=self._answer, args=[sock], daemon=True)
        with self._lock:
            self._open[thread] = sock
        try:
            thread.start()
        except RuntimeError:  # there are no more
            self._forget(thread, sock)
            self._plain.release()

    def _answer(self, sock: socket.socket) -> None:
        taken = self._plain
        try:
            request = Request(sock)
            reply = request.ask(self._routes)
            if reply is not None and reply.stream is not None:
                if self._streams.acquire(blocking=False):
                    taken.release()
                    taken = self._streams
                else:
                    reply = BUSY
            if reply is not None:
                request.tell(reply)
        except OSError as error:
            logger.debug("hung up: %s", error)
        except Exception:
            logger.exception("a request was not answered")
        finally:
            self._forget(threading.current_thread(), sock)
            taken.release()

    def _forget(self, thread: threading.Thread, sock: socket.socket) -> None:
        with self._lock:
            self._open.pop(thread, None)
        sock.close()


def _turn_away(sock: socket.socket) -> None:
    with sock, suppress(OSError):
        sock.settimeout(0.1)
        sock.sendall(FULL)


def _listening(address: str) -> socket.socket:
    wanted = parse(address, listening=True)
    if not isinstance(wanted, TcpAddress):
        raise UsageError(f"{address!r} is no host:port for HTTP", cause="address")
    try:
        found = socket.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM)
        family, _, _, _, where = found[0]
        return socket.create_server(where[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise UsageError(f"HTTP at {address}: {error.strerror or error}", cause="address") from None
