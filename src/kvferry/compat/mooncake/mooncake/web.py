"""HTTP for a few programs of one's own: one request a connection, of bounded length, in bounded
time, by so many at once. Who reaches the port may ask; what is answered is for others to decide."""

from __future__ import annotations

import hmac
import io
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

__all__ = ["Answer", "Asked", "Server", "serving"]

logger = logging.getLogger("mooncake.http")

HEAD_MAX = 16 << 10  # bytes of a request line and its headers
FIELDS_MAX = 8  # of a query
REQUEST_SECONDS = 5.0  # for all of a request to come; the same for its answer to be taken
POLL = 0.1  # seconds until a server that is to end knows it
BEARER = "bearer"


class Asked(NamedTuple):
    """A request.

    query  the first value of each name
    by     what stands behind Bearer in its header Authorization
    """

    method: str
    path: str
    query: dict[str, str]
    body: bytes = b""
    by: bytes = b""

    def is_by(self, token: bytes) -> bool:
        """Does who asks hold this token? In constant time."""
        return hmac.compare_digest(self.by, token)


class Answer(NamedTuple):
    status: int
    body: bytes
    kind: str = "application/json"


class Server(ThreadingHTTPServer):
    """Listens when it is made, answers in `serve_forever`. Port 0: a free one.

    answer   to each request, of several threads at once
    body     bytes that a request may have at most behind its headers
    at_once  connections; more are hung up on
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        host: str,
        port: int,
        answer: Callable[[Asked], Answer],
        *,
        body: int,
        at_once: int = 32,
    ) -> None:
        self.answer = answer
        self.body = body
        self._places = threading.BoundedSemaphore(at_once)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("%s: %s", client_address, sys.exc_info()[1])


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """It answers, in a thread of its own, as long as the block lasts; then it is closed."""
    thread = threading.Thread(
        target=server.serve_forever, args=(POLL,), name="mooncake-http", daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Handler(BaseHTTPRequestHandler):
    """One request. The head is received before it is parsed, so its length is known to be small."""

    server: Server
    server_version, sys_version = "kvferry", ""

    def setup(self) -> None:
        super().setup()
        self._deadline = time.monotonic() + REQUEST_SECONDS
        head, self._rest = self._receive_head()
        self.rfile = io.BufferedReader(io.BytesIO(head))

    def do_GET(self) -> None:
        self._answer(b"")

    def do_DELETE(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._with_body(self.headers.get("Content-Length", "0"))

    def do_PUT(self) -> None:
        self._with_body(self.headers.get("Content-Length", ""))

    def handle_expect_100(self) -> bool:
        return True  # said once the length is known

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("%s %r", self.client_address[0], format % args)

    def _with_body(self, length: str) -> None:
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self._send(Answer(411, b"the length is required"))
        elif len(length) > 9 or int(length) > self.server.body:
            self._send(Answer(413, b"too long"))
        else:
            if self.headers.get("Expect", "").lower() == "100-continue":
                self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._answer(self._receive(int(length)))

    def _answer(self, body: bytes) -> None:
        try:
            url = urlsplit(self.path)
            fields = parse_qs(url.query, max_num_fields=FIELDS_MAX)
        except ValueError:
            self._send(Answer(400, b"not an address"))
            return
        query = {name: values[0] for name, values in fields.items()}
        asked = Asked(self.command, url.path, query, body, self._bearer())
        self._send(self.server.answer(asked))

    def _bearer(self) -> bytes:
        """As bytes that came: headers are read as latin-1."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip().encode("latin-1", "replace") if scheme.lower() == BEARER else b""

    def _send(self, answer: Answer) -> None:
        self._deadline = time.monotonic() + REQUEST_SECONDS
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self._wait()
        self.wfile.write(answer.body)

    def _receive_head(self) -> tuple[bytes, bytes]:
        """The request up to its empty line, and what came behind it."""
        found = b""
        while (end := found.find(b"\r\n\r\n")) < 0:
            chunk = self._receive_some(HEAD_MAX - len(found))
            if not chunk:
                return b"", b""  # too long, or hung up: no request
            found += chunk
        return found[: end + 4], found[end + 4 :]

    def _receive(self, length: int) -> bytes:
        body = bytearray(self._rest[:length])
        while len(body) < length:
            chunk = self._receive_some(min(length - len(body), 64 << 10))
            if not chunk:
                raise ConnectionError("hung up in the middle of a request")
            body += chunk
        return bytes(body)

    def _receive_some(self, most: int) -> bytes:
        self._wait()
        return self.connection.recv(most) if most else b""

    def _wait(self) -> None:
        """The next step of the socket may take what is left of the time. Raises TimeoutError."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self.connection.settimeout(left)
