"""A connection whose socket is given away when its last request is answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from kvferry.errors import ClosedError, PeerError
from kvferry.rpc import Connection

Pair = Callable[..., tuple[Connection, Connection]]

PATIENCE = 10.0


def test_both_ends_go_on_with_the_bare_socket(pair: Pair) -> None:
    taken: list[socket.socket] = []
    arrived = threading.Event()

    def take(sock: socket.socket) -> None:
        taken.append(sock)
        arrived.set()

    def serve(connection: Connection, body: bytes, fds: list[int]) -> tuple[bytes, list[int]]:
        if body == b"last":
            connection.hand_over = take
        return body, []

    client, server = pair(serve)
    for body in (b"first", b"last"):
        assert client.call(body, timeout=PATIENCE) == (body, [])
    with client.release() as ours:
        assert arrived.wait(PATIENCE)
        (theirs,) = taken
        with theirs:
            for one, other in ((ours, theirs), (theirs, ours)):
                one.setblocking(True)
                other.setblocking(True)
                one.sendall(b"bytes that are no frame")
                assert other.recv(100) == b"bytes that are no frame"
    assert isinstance(server.lost, ClosedError)
    with pytest.raises(ClosedError):
        client.call(b"more", timeout=PATIENCE)


def test_not_before_the_reply_that_hands_it_over(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that answered the request before may still be on its way out."""
    first_leaves, last_served = threading.Event(), threading.Event()
    taken: list[bytes] = []
    reply = Connection._reply

    def slow(self: Connection, kind: object, call: int, body: bytes, fds: object) -> None:
        if body == b"last":
            assert first_leaves.wait(PATIENCE)
        reply(self, kind, call, body, fds)  # type: ignore[arg-type]
        if body == b"first":
            assert last_served.wait(PATIENCE)
            first_leaves.set()

    monkeypatch.setattr(Connection, "_reply", slow)

    def serve(connection: Connection, body: bytes, fds: list[int]) -> tuple[bytes, list[int]]:
        if body == b"last":
            connection.hand_over = lambda sock: (taken.append(body), sock.close())[0]
            last_served.set()
        return body, []

    client, _ = pair(serve)
    assert client.call(b"first", timeout=PATIENCE) == (b"first", [])
    assert client.call(b"last", timeout=PATIENCE) == (b"last", [])


def test_not_while_somebody_asks(pair: Pair) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def serve(connection: Connection, body: bytes, fds: list[int]) -> tuple[bytes, list[int]]:
        asked.set()
        assert go_on.wait(PATIENCE)
        return body, []

    client, _ = pair(serve)
    caller = threading.Thread(target=client.call, args=(b"slow",))
    caller.start()
    assert asked.wait(PATIENCE)
    with pytest.raises(PeerError, match="under way"):
        client.release()
    go_on.set()
    caller.join()
    client.release().close()
