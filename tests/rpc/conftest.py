"""Pairs of connections, watched by one poller."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from kvferry.rpc import Connection, Poller, Serve

PATIENCE = 10.0


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it comes true; waits no longer than it takes."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[[Callable[[], bool]], bool]:
    return eventually


def echo(_connection: Connection, body: bytes, fds: list[int]) -> tuple[bytes, Sequence[int]]:
    for fd in fds:
        os.close(fd)
    return body, ()


@pytest.fixture
def poller() -> Iterator[Poller]:
    made = Poller("test")
    yield made
    made.close()


Pair = Callable[..., tuple[Connection, Connection]]


@pytest.fixture
def pair(poller: Poller) -> Iterator[Pair]:
    """Two authenticated connections to each other, over a unix socket unless given another."""
    made: list[Connection] = []

    def make(
        server: Serve = echo,
        client: Serve = echo,
        sockets: tuple[socket.socket, socket.socket] | None = None,
        **options: object,
    ) -> tuple[Connection, Connection]:
        left, right = sockets or socket.socketpair()
        both = Connection(left, client, **options), Connection(right, server)  # type: ignore[arg-type]
        for connection in both:
            connection.authenticated = True
            connection.limit = 16 << 20
            poller.watch(connection)
        made.extend(both)
        return both

    yield make
    for connection in made:
        connection.close()
