"""A server about a store that is pretended, and requests to it as they go over the wire."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kvferry.store.seen import Snapshot
from kvferry.watch import Server, Watcher
from tests.watch.pictures import node, part, snapshot

__all__ = ["KEY", "Answer", "Pretended", "ask", "bearing", "said", "served"]

KEY = "k" * 32
EVERY = 0.05


class Pretended:
    """Seen as a survey sees it: each time there is more. `seen` may be changed."""

    def __init__(self) -> None:
        self.count = 0
        self.seen: Callable[[int, float], Snapshot] = lambda count, moment: snapshot(
            moment, node(own=part(100 * count, count), tenants={"red": part(3, 1)})
        )

    def take(self) -> Snapshot:
        self.count += 1
        return self.seen(self.count, time.monotonic())

    def close(self) -> None:
        pass


@contextmanager
def served(survey: Any = None, at: str = "127.0.0.1:0") -> Iterator[Server]:
    server = Server(at, KEY, Watcher(survey or Pretended(), EVERY))
    try:
        yield server
    finally:
        server.close()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def bearing(path: str, method: str = "GET", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: here", f"Authorization: Bearer {KEY}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def said(port: int, request: bytes, wait: float = 10.0) -> bytes:
    """All that is answered, until it is hung up."""
    with socket.create_connection(("127.0.0.1", port), wait) as sock:
        got = bytearray()
        try:
            sock.sendall(request)
            while more := sock.recv(1 << 16):
                got += more
        except ConnectionError:  # hung up on while it was sent
            pass
        return bytes(got)


def ask(port: int, request: bytes) -> Answer:
    head, _, body = said(port, request).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Answer(int(first.split()[1]), headers, body)
