"""``python -m mooncake.http_metadata_server``: the metadata service of a few machines.

GET, PUT and DELETE of /metadata?key=. One request a connection, of a bounded length and in bounded
time; anybody who reaches the port may ask, so it listens on loopback unless told otherwise.
"""

from __future__ import annotations

import argparse
import io
import logging
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .metadata_keys import VALUE_MAX, Answer, Keys

__all__ = ["MetadataServer", "main"]

logger = logging.getLogger("mooncake.metadata")

PATH = "/metadata"
HEAD_MAX = 16 << 10  # bytes of a request line and its headers
REQUEST_SECONDS = 5.0  # for all of a request to come, and for the answer to be taken
AT_ONCE = 128  # connections; more are hung up on


class MetadataServer(ThreadingHTTPServer):
    """Listens when it is made, answers in `serve_forever`. Port 0: a free one."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int) -> None:
        self.keys = Keys()
        self._over = False
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def end(self, number: int, frame: object) -> None:
        """A signal's handler: serve_forever ends soon, between two requests."""
        self._over = True

    def service_actions(self) -> None:
        if self._over:
            raise SystemExit(0)

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
        logger.info("%s: %s", client_address, sys.exc_info()[1])


class Handler(BaseHTTPRequestHandler):
    """One request. The head is received before it is parsed, so its length is known to be small."""

    server: MetadataServer
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

    def do_PUT(self) -> None:
        text = self.headers.get("Content-Length", "")
        if not text.isdecimal():
            self._send(Answer(411, b"the length is required"))
        elif len(text) > 9 or int(text) > VALUE_MAX:
            self._send(Answer(413, b"too long"))
        else:
            if self.headers.get("Expect", "").lower() == "100-continue":
                self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._answer(self._receive(int(text)))

    def do_POST(self) -> None:
        self._send(Answer(405, b"GET, PUT or DELETE"))

    def handle_expect_100(self) -> bool:
        return True  # said once the length is known

    def log_message(self, format: str, *args: Any) -> None:
        logger.info("%s %r", self.client_address[0], format % args)

    def _answer(self, value: bytes) -> None:
        url = urlsplit(self.path)
        if url.path != PATH:
            self._send(Answer(404, b"there is only /metadata"))
            return
        (key, *_) = parse_qs(url.query, max_num_fields=8).get("key", [""])
        self._send(self.server.keys.answer(self.command, key, value))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
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
                raise ConnectionError("hung up in the middle of a value")
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


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="mooncake_http_metadata_server", description="Keeps where engines listen."
    )
    parser.add_argument("--host", default="127.0.0.1", help="to listen on (default: loopback)")
    parser.add_argument("--port", type=int, default=8080, help="to listen on (default: 8080)")
    levels = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    parser.add_argument("--log-level", default="INFO", choices=levels)
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=asked.log_level, format="%(asctime)s %(message)s")
    try:
        server = MetadataServer(asked.host, asked.port)
    except OSError as error:
        parser.exit(1, f"{parser.prog}: {asked.host}:{asked.port}: {error.strerror}\n")
    with server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, server.end)
        logger.info("listening on %s:%d", *server.server_address[:2])
        server.serve_forever()


if __name__ == "__main__":
    main()
