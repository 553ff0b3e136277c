"""One request over one connection."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from .. import log
from .patient import Incoming

if TYPE_CHECKING:
    from .routes import Routes

__all__ = ["BUSY", "Reply", "Request", "Stream"]

logger = log.get("kvferry.watch")

LINE = 4096  # bytes of the first line; of a longer one the rest is no header
SEND = 5.0  # seconds that a piece of an answer may take to go

# What every answer carries.
ALWAYS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

# Writes what comes, a piece each call of what it is given; ends when there is no more.
Stream = Callable[[Callable[[bytes], None]], None]


class Reply:
    """status, content type, body, further headers; instead of a body a stream that goes on."""

    def __init__(
        self,
        status: HTTPStatus,
        body: bytes | str = b"",
        kind: str = "text/plain; charset=utf-8",
        *,
        headers: dict[str, str] | None = None,
        stream: Stream | None = None,
    ) -> None:
        self.status = status
        self.body = body.encode() if isinstance(body, str) else body
        self.headers = {**ALWAYS, "Content-Type": kind, **(headers or {})}
        self.stream = stream


BUSY = Reply(HTTPStatus.SERVICE_UNAVAILABLE, "too many look\n", headers={"Retry-After": "2"})


class Request(BaseHTTPRequestHandler):
    """In the thread of its connection: `ask`, then `tell` what the answer is."""

    protocol_version = "HTTP/1.1"
    server_version = "kvferry"
    sys_version = ""
    default_request_version = "HTTP/1.1"

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._incoming = Incoming(sock)
        self._sent = io.BytesIO()  # goes in one piece
        self.rfile = io.BufferedReader(self._incoming)
        self.wfile = self._sent
        self.client_address = ("", 0)
        self.command = ""

    def ask(self, routes: Routes) -> Reply | None:
        """Read it, and have it answered; None: it was none, or nobody's, and that is told."""
        self.raw_requestline = self.rfile.readline(LINE)
        if not self.raw_requestline or not self.parse_request():
            self.send(self._sent.getvalue())
            return None
        if self._incoming.spoilt:
            return Reply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too much or too slow\n")
        return routes.answer(self.command, self.path, self.headers)

    def tell(self, reply: Reply) -> None:
        self._write(reply)
        self.send(self._sent.getvalue())
        if reply.stream is not None and self.command != "HEAD":
            reply.stream(self.send)

    def send(self, piece: bytes) -> None:
        self._socket.settimeout(SEND)
        self._socket.sendall(piece)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is not even a request."""
        self._write(Reply(HTTPStatus(code), f"{HTTPStatus(code).phrase}\n"))

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("%r", args)

    def _write(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.stream is None:
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)
