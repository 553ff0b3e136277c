"""A live poller among peers that are silent, half-way, garbled, greedy or blocked."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvferry.errors import ClosedError, PeerError, UsageError
from kvferry.rpc import Connection, Poller, dial_abstract, listen_abstract
from kvferry.rpc.wire import Kind, encode
from kvferry.rpc.workers import MIN_WORKERS

Answer = tuple[bytes, Sequence[int]]
Eventually = Callable[[Callable[[], bool]], bool]


def echo(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
    return body, ()


class Server:
    """Accepts connections whose first request, whatever it says, authenticates them."""

    def __init__(self, poller: Poller, patience: float) -> None:
        self.poller = poller
        self.accepted: list[Connection] = []
        self.lost: list[Connection] = []
        self.sock = listen_abstract()
        poller.listen(self.sock, self.accept, patience=patience)

    def accept(self, sock: socket.socket) -> Connection:
        connection = Connection(sock, self.greet, on_lost=self.lost.append)
        self.accepted.append(connection)
        return connection

    def greet(self, connection: Connection, body: bytes, fds: list[int]) -> Answer:
        connection.serve = echo
        connection.limit = 16 << 20
        connection.authenticated = True
        return body, ()

    def dial(self) -> socket.socket:
        return dial_abstract(self.sock.getsockname(), 5.0)


@pytest.fixture
def server(poller: Poller) -> Iterator[Server]:
    made = Server(poller, patience=3600.0)
    yield made
    poller.forget(made.sock)
    made.sock.close()


@pytest.fixture
def client(server: Server) -> Iterator[Connection]:
    """A well-behaved peer of `server`, on a poller of its own."""
    poller = Poller("client")
    connection = Connection(server.dial(), echo)
    poller.watch(connection)
    assert connection.call(b"hello", timeout=5.0)[0] == b"hello"
    yield connection
    connection.close()
    poller.close()


def undisturbed(client: Connection) -> None:
    for n in range(20):
        body = b"undisturbed %d" % n
        assert client.call(body, timeout=5.0) == (body, [])


def header(length: int, kind: int = 1, fds: int = 0, zero: int = 0) -> bytes:
    return struct.pack("<IBBHQ", length, kind, fds, zero, 1)


@pytest.mark.parametrize(
    "data",
    [
        os.urandom(300).replace(b"\1", b"\0"),
        b"GET / HTTP/1.1\r\nHost: kv\r\n\r\n",
        header(2**32 - 1),
        header((64 << 10) + 1),
        header(0, kind=9),
        header(0, fds=17),
        header(0, zero=1),
        # Before authentication one request at a time.
        encode(Kind.REQUEST, 1, b"") + encode(Kind.REQUEST, 2, b""),
        encode(Kind.REQUEST, 1, b"")[:9],  # and then hangs up
    ],
    ids=range(9),
)
def test_hostile_bytes_end_their_own_connection(
    server: Server, client: Connection, eventually: Eventually, data: bytes
) -> None:
    with server.dial() as hostile:
        hostile.sendall(data)
        hostile.shutdown(socket.SHUT_WR)
        undisturbed(client)
        assert eventually(lambda: len(server.lost) == 1)
        undisturbed(client)
    assert isinstance(server.lost[0].lost, PeerError)
    assert client.lost is None


def test_silent_and_half_way_peers_delay_nobody(
    server: Server, client: Connection, eventually: Eventually
) -> None:
    peers = [server.dial() for _ in range(40)]
    for peer in peers[::2]:
        peer.sendall(encode(Kind.REQUEST, 1, b"half a frame")[:-1])
    assert eventually(lambda: len(server.accepted) == 41)
    undisturbed(client)
    assert not server.lost
    for peer in peers[::2]:
        peer.sendall(b"e")
        peer.settimeout(5.0)
        assert peer.recv(100) == encode(Kind.REPLY, 1, b"half a frame")
    for peer in peers:
        peer.close()
    assert eventually(lambda: len(server.lost) == 40)


def test_a_byte_at_a_time(server: Server, client: Connection) -> None:
    with server.dial() as slow:
        for byte in encode(Kind.REQUEST, 1, b"slowly"):
            slow.sendall(bytes([byte]))
        slow.settimeout(5.0)
        undisturbed(client)
        assert slow.recv(100) == encode(Kind.REPLY, 1, b"slowly")


def test_a_peer_that_stops_reading_delays_nobody_and_is_lost_in_the_end(
    server: Server, client: Connection, eventually: Eventually
) -> None:
    request = encode(Kind.REQUEST, 1, bytes(1 << 20))
    with server.dial() as deaf:
        deaf.settimeout(10.0)
        deaf.sendall(encode(Kind.REQUEST, 1, b"hello"))
        deaf.recv(100)
        # Its replies would be 200 MiB; it is cut off before.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(200):
                deaf.sendall(request)
                client.call(b"meanwhile", timeout=5.0)
        assert eventually(lambda: len(server.lost) == 1)
    assert "has not read" in str(server.lost[0].lost)
    undisturbed(client)


def test_a_flood_of_requests_is_refused(
    server: Server, client: Connection, eventually: Eventually
) -> None:
    go = threading.Event()

    def hold(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        go.wait(10.0)
        return body, ()

    with server.dial() as hostile:
        hostile.sendall(encode(Kind.REQUEST, 1, b"hello"))
        hostile.recv(100)
        server.accepted[-1].serve = hold
        hostile.settimeout(10.0)
        hostile.sendall(b"".join(encode(Kind.REQUEST, n, b"") for n in range(1100)))
        assert eventually(lambda: len(server.lost) == 1)
    go.set()
    undisturbed(client)
    assert "too much at once" in str(server.lost[0].lost)


def test_blocked_handlers_delay_nobody(
    server: Server, client: Connection, eventually: Eventually
) -> None:
    go, entered = threading.Event(), threading.Semaphore(0)

    def hold(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        entered.release()
        go.wait(10.0)
        return body, ()

    server.accepted[0].serve = lambda c, b, f: hold(c, b, f) if b == b"hold" else (b, ())
    with ThreadPoolExecutor(12) as pool:
        held = [pool.submit(client.call, b"hold", timeout=10.0) for _ in range(12)]
        for _ in range(12):
            assert entered.acquire(timeout=5.0)
        undisturbed(client)
        go.set()
        assert [each.result() for each in held] == [(b"hold", [])] * 12


# Deadlines


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_who_does_not_authenticate_in_time_is_dropped(eventually: Eventually) -> None:
    clock = Clock()
    poller = Poller("strict", clock=clock, idle=0.02)
    server = Server(poller, patience=10.0)
    with server.dial() as silent, server.dial() as friend:
        friend.sendall(encode(Kind.REQUEST, 1, b"hello"))
        friend.settimeout(5.0)
        assert friend.recv(100) == encode(Kind.REPLY, 1, b"hello")
        assert eventually(lambda: len(server.accepted) == 2)
        clock.now += 9.9
        friend.sendall(encode(Kind.REQUEST, 2, b"not yet"))
        assert friend.recv(100) == encode(Kind.REPLY, 2, b"not yet")
        assert not server.lost
        clock.now += 0.2
        silent.settimeout(5.0)
        assert silent.recv(100) == b""
        assert eventually(lambda: len(server.lost) == 1)
        friend.sendall(encode(Kind.REQUEST, 3, b"still here"))
        assert friend.recv(100) == encode(Kind.REPLY, 3, b"still here")
    poller.close()
    server.sock.close()
    why = server.lost[0].lost
    assert isinstance(why, PeerError)
    assert why.cause == "not_authenticated"


def test_who_hangs_up_is_forgotten_long_before_its_deadline(eventually: Eventually) -> None:
    """Else who only connects and hangs up, again and again, fills our memory."""
    poller = Poller("strict")
    accepted: list[weakref.ref[Connection]] = []

    def accept(sock: socket.socket) -> Connection:
        connection = Connection(sock, echo)
        accepted.append(weakref.ref(connection))
        return connection

    with listen_abstract() as listener:
        poller.listen(listener, accept, patience=3600.0)
        gc.disable()  # which would come too late, or not
        try:
            for _ in range(40):
                with dial_abstract(listener.getsockname(), 5.0) as sock:
                    sock.sendall(b"\x05")
            assert eventually(lambda: len(accepted) == 40)
            # A worker may keep the last one it served.
            assert eventually(lambda: sum(each() is not None for each in accepted) < 10)
        finally:
            gc.enable()
        poller.close()


def test_a_deadline_in_real_time(eventually: Eventually) -> None:
    poller = Poller("real")
    server = Server(poller, patience=0.05)
    with server.dial() as silent:
        silent.settimeout(3.0)
        assert silent.recv(100) == b""
    poller.close()
    server.sock.close()


# Workers


def workers(name: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith(f"kvferry-{name}-")]


def test_workers_start_late_and_spare_ones_end(eventually: Eventually) -> None:
    poller = Poller("elastic", idle=0.05)
    assert not workers("elastic")
    left, right = socket.socketpair()
    go = threading.Event()

    def hold(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        go.wait(10.0)
        return body, ()

    both = Connection(left, echo), Connection(right, hold)
    for each in both:
        each.authenticated = True
        poller.watch(each)
    with ThreadPoolExecutor(10) as pool:
        calls = [pool.submit(both[0].call, b"%d" % n, timeout=10.0) for n in range(10)]
        assert eventually(lambda: len(workers("elastic")) >= 11)
        go.set()
        assert [call.result()[0] for call in calls] == [b"%d" % n for n in range(10)]
    assert all(each.daemon for each in workers("elastic"))
    assert eventually(lambda: len(workers("elastic")) == MIN_WORKERS)
    assert both[0].call(b"with fewer", timeout=5.0)[0] == b"with fewer"
    poller.close()
    assert not workers("elastic")


def test_close_ends_connections_and_threads(eventually: Eventually) -> None:
    poller = Poller("closing")
    left, right = socket.socketpair()
    told: list[Connection] = []
    both = [Connection(each, echo, on_lost=told.append) for each in (left, right)]
    for each in both:
        poller.watch(each)
    assert both[0].call(b"x", timeout=5.0)[0] == b"x"
    poller.close()
    poller.close()
    assert sorted(told, key=id) == sorted(both, key=id)
    assert not workers("closing")
    with pytest.raises(ClosedError):
        both[0].call(b"x")
    third, fourth = socket.socketpair()
    late = Connection(third, echo)
    with fourth, pytest.raises(ClosedError):
        poller.watch(late)
    late.close()


def test_close_from_a_handler(eventually: Eventually) -> None:
    poller = Poller("inside")
    left, right = socket.socketpair()

    def end(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        poller.close()
        return body, ()

    both = Connection(left, echo), Connection(right, end)
    for each in both:
        poller.watch(each)
    with pytest.raises((ClosedError, PeerError)):
        both[0].call(b"x", timeout=5.0)
    assert eventually(lambda: not workers("inside"))


def test_closing_an_unused_poller() -> None:
    poller = Poller("unused")
    poller.close()
    poller.close()


def test_a_forgotten_connection_stays_open_and_unattended(
    poller: Poller, eventually: Eventually
) -> None:
    hostile, ours = socket.socketpair()
    connection = Connection(ours, echo)
    poller.watch(connection)
    with pytest.raises(UsageError, match="already"):
        poller.watch(connection)
    poller.forget(connection)
    with hostile:
        hostile.sendall(encode(Kind.REQUEST, 1, b"anybody?"))
        hostile.settimeout(0.05)
        with pytest.raises(TimeoutError):
            hostile.recv(1)
        poller.watch(connection)
        hostile.settimeout(5.0)
        assert hostile.recv(100) == encode(Kind.REPLY, 1, b"anybody?")
        connection.close()


def test_accept_may_refuse_or_fail(
    poller: Poller, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def accept(sock: socket.socket) -> Connection | None:
        seen.append(sock.fileno())
        if len(seen) == 1:
            raise KeyError("no")
        sock.close()
        return None

    with listen_abstract() as server:
        poller.listen(server, accept)
        for _ in range(2):
            with dial_abstract(server.getsockname(), 5.0) as refused:
                refused.settimeout(5.0)
                assert refused.recv(1) == b""
        poller.forget(server)
    assert len(seen) == 2
    assert "not accepted" in caplog.text
