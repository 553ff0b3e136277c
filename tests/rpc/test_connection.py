"""Calls in both directions: many at once, late, nested, lost; with descriptors; to processes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvferry.address import TcpAddress
from kvferry.errors import ClosedError, ForkedError, Full, PeerError, Timeout, UsageError
from kvferry.rpc import Connection, Poller, close_all, dial, dial_abstract, listen, listen_abstract
from kvferry.rpc.wire import Kind, encode
from kvferry.testing import Child, Parent

Answer = tuple[bytes, Sequence[int]]
Pair = Callable[..., tuple[Connection, Connection]]
Eventually = Callable[[Callable[[], bool]], bool]


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with listen(TcpAddress("127.0.0.1", 0)) as server:
        client = dial(TcpAddress("127.0.0.1", server.getsockname()[1]), 5.0)
        return client, server.accept()[0]


@pytest.fixture(params=[socket.socketpair, tcp_pair], ids=["unix", "tcp"])
def sockets(request: pytest.FixtureRequest) -> tuple[socket.socket, socket.socket]:
    both: tuple[socket.socket, socket.socket] = request.param()
    return both


# Calling


@pytest.mark.parametrize("size", [0, 1, 100, 65536, 1 << 20, 16 << 20])
def test_any_size_comes_back(pair: Pair, size: int) -> None:
    client, _ = pair()
    body = os.urandom(size)
    assert client.call(body, timeout=20.0) == (body, [])


def test_both_sides_call(pair: Pair, sockets: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair(
        server=lambda c, body, fds: (b"right " + body, ()),
        client=lambda c, body, fds: (b"left " + body, ()),
        sockets=sockets,
    )
    for _ in range(50):
        assert left.call(b"?", timeout=5.0) == (b"right ?", [])
        assert right.call(b"!", timeout=5.0) == (b"left !", [])


def test_many_callers_get_their_own_replies(
    pair: Pair, eventually: Eventually, sockets: tuple[socket.socket, socket.socket]
) -> None:
    both = pair(sockets=sockets)

    def calls(caller: int) -> None:
        connection = both[caller % 2]
        for n in range(200):
            body = b"%d/%d" % (caller, n) * (1 + n % 7)
            assert connection.call(body, timeout=20.0) == (body, [])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(calls, range(8)))
    assert len(both[0]._calls) == 0
    assert eventually(lambda: not both[0]._calls.led)


def test_a_handler_calls_back_over_the_same_connection(pair: Pair) -> None:
    def countdown(connection: Connection, body: bytes, fds: list[int]) -> Answer:
        n = int(body)
        return (b"0", ()) if n == 0 else connection.call(b"%d" % (n - 1), timeout=10.0)

    client, server = pair(server=countdown, client=countdown)
    assert client.call(b"20", timeout=10.0) == (b"0", [])
    assert server.call(b"19", timeout=10.0) == (b"0", [])


def test_a_request_does_not_run_in_the_thread_that_leads(pair: Pair) -> None:
    ran_in: list[threading.Thread] = []

    def remember(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        ran_in.append(threading.current_thread())
        return body, ()

    def ask_back(connection: Connection, body: bytes, fds: list[int]) -> Answer:
        return connection.call(body, timeout=5.0)

    client, _ = pair(server=ask_back, client=remember)
    assert client.call(b"x", timeout=5.0) == (b"x", [])
    assert threading.current_thread() not in ran_in


def test_a_failure_is_told_and_harms_nothing(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        if body == b"exit":
            raise SystemExit("handlers do not end workers")
        if body == b"refuse":
            raise UsageError("no such thing", cause="thing")
        raise KeyError("ключ")

    client, _ = pair(server=fail)
    for body, says in [(b"exit", "SystemExit"), (b"refuse", "no such thing"), (b"", "ключ")]:
        with pytest.raises(PeerError, match=says) as caught:
            client.call(body, timeout=5.0)
        assert caught.value.cause == "call_failed"
        assert "Traceback" not in str(caught.value)
    assert [record.name for record in caplog.records] == ["kvferry.rpc"] * 3


def test_too_long_messages_are_refused_before_they_are_sent(pair: Pair) -> None:
    client, server = pair(server=lambda c, body, fds: (bytes(2000), ()))
    client.limit = 1000
    with pytest.raises(UsageError) as caught:
        client.call(bytes(1001))
    assert caught.value.cause == "too_long"
    server.limit = 1000
    with pytest.raises(PeerError, match="2000 bytes is above the limit"):
        client.call(bytes(1000), timeout=5.0)


def test_an_unwatched_connection_says_so() -> None:
    left, right = socket.socketpair()
    connection = Connection(left, lambda c, body, fds: (body, ()))
    with right, pytest.raises(UsageError) as caught:
        connection.call(b"x")
    assert caught.value.cause == "unwatched"
    connection.close()


# Time


def test_late_replies_are_dropped(pair: Pair) -> None:
    go = threading.Event()

    def slow(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        if body == b"slow":
            go.wait(10.0)
        return body, [0]

    client, _ = pair(server=slow)
    with pytest.raises(Timeout) as caught:
        client.call(b"slow", timeout=0.05)
    assert caught.value.cause == "call_timeout"
    go.set()
    for _ in range(20):
        body, fds = client.call(b"quick", timeout=5.0)
        assert body == b"quick"
        close_all(fds)


def test_the_lead_passes_on_when_the_leader_times_out(pair: Pair, eventually: Eventually) -> None:
    go = threading.Event()

    def hold(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        go.wait(10.0)
        return body, ()

    client, _ = pair(server=hold)
    with ThreadPoolExecutor(4) as pool:
        leader = pool.submit(client.call, b"leader", timeout=0.2)
        assert eventually(lambda: client._calls.led)
        followers = [pool.submit(client.call, b"%d" % n, timeout=10.0) for n in range(3)]
        assert eventually(lambda: len(client._calls) == 4)
        with pytest.raises(Timeout):
            leader.result()
        go.set()
        assert [each.result() for each in followers] == [(b"%d" % n, []) for n in range(3)]
    assert eventually(lambda: not client._calls.led)


def test_a_follower_times_out_alone(pair: Pair, eventually: Eventually) -> None:
    go = threading.Event()

    def hold(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        go.wait(10.0)
        return body, ()

    client, _ = pair(server=hold)
    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(client.call, b"leader", timeout=10.0)
        assert eventually(lambda: client._calls.led)
        with pytest.raises(Timeout):
            client.call(b"follower", timeout=0.05)
        go.set()
        assert leader.result() == (b"leader", [])


# The end


def blocked(pair: Pair, **options: object) -> tuple[Connection, Connection, threading.Event]:
    go = threading.Event()

    def hold(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        go.wait(10.0)
        return body, ()

    client, server = pair(server=hold, **options)
    return client, server, go


@pytest.mark.parametrize(("side", "kind"), [(0, ClosedError), (1, PeerError)])
def test_closing_wakes_all_who_wait(
    pair: Pair,
    eventually: Eventually,
    sockets: tuple[socket.socket, socket.socket],
    side: int,
    kind: type[Exception],
) -> None:
    told: list[Connection] = []
    client, server, go = blocked(pair, sockets=sockets, on_lost=told.append)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(client.call, b"%d" % n) for n in range(4)]
        assert eventually(lambda: len(client._calls) == 4)
        (client, server)[side].close()
        for call in calls:
            with pytest.raises(kind):
                call.result(timeout=10.0)
    go.set()
    client.close()
    with pytest.raises(kind):
        client.call(b"after")
    assert told == [client]
    assert isinstance(client.lost, kind)


def test_the_loss_of_an_idle_connection_is_noticed(
    pair: Pair, eventually: Eventually, sockets: tuple[socket.socket, socket.socket]
) -> None:
    told: list[Connection] = []
    client, server = pair(sockets=sockets, on_lost=told.append)
    server.close()
    assert eventually(lambda: told == [client])
    with pytest.raises(PeerError) as caught:
        client.call(b"x")
    assert caught.value.cause == "connection_lost"
    assert caught.value.__cause__ is client.lost


def test_closing_from_a_handler(pair: Pair) -> None:
    def hang_up(connection: Connection, body: bytes, fds: list[int]) -> Answer:
        connection.close()
        return body, ()

    client, _ = pair(server=hang_up)
    with pytest.raises(PeerError):
        client.call(b"x", timeout=5.0)


def test_on_lost_may_fail(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_connection: Connection) -> None:
        raise KeyError

    client, _ = pair(on_lost=fail)
    client.close()
    assert "on_lost" in caplog.text


def test_closing_under_load(pair: Pair) -> None:
    for _ in range(20):
        client, server = pair()

        def calls(connection: Connection) -> int:
            done = 0
            try:
                while True:
                    connection.call(b"x" * 3000, timeout=10.0)
                    done += 1
            except (ClosedError, PeerError):
                return done

        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(calls, each) for each in (client, server) * 2]
            client.call(b"y", timeout=10.0)
            client.close()
            for each in running:
                each.result(timeout=10.0)


def test_who_asks_too_late_is_told_at_once(pair: Pair, eventually: Eventually) -> None:
    told: list[str] = []
    client, server = pair(on_lost=lambda _: told.append("client"))
    client.close()
    assert eventually(lambda: server.lost is not None)
    server.on_lost = lambda _: told.append("server")
    assert told == ["client", "server"]
    assert eventually(lambda: client.fileno() == server.fileno() == -1)


def test_credentials(pair: Pair) -> None:
    client, _ = pair()
    assert client.credentials == (os.getpid(), os.getuid())
    client, _ = pair(sockets=tcp_pair())
    assert client.credentials is None
    assert client.peer.startswith("127.0.0.1:")


# Descriptors


def test_descriptors_travel_both_ways(pair: Pair) -> None:
    kept: list[int] = []

    def swap(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        for fd in fds:
            os.write(fd, body)
        close_all(fds)
        kept[:] = os.pipe()
        os.write(kept[1], b"back")
        return b"", [kept[0]]

    client, _ = pair(server=swap)
    for _ in range(3):
        reading, writing = os.pipe()
        _, fds = client.call(b"there", [writing] * 16, timeout=5.0)
        assert os.read(reading, 200) == b"there" * 16
        assert os.read(fds[0], 16) == b"back"
        assert not os.get_inheritable(fds[0])
        close_all([reading, writing, *fds, *kept])


def test_descriptors_follow_their_frames_under_load(pair: Pair) -> None:
    def reopen(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        read = b"".join(os.pread(fd, 100, 0) for fd in fds)
        close_all(fds)
        return read, ()

    client, _ = pair(server=reopen)

    def calls(caller: int) -> None:
        fd = os.memfd_create(f"caller {caller}")
        os.write(fd, b"<%d>" % caller)
        for n in range(60):
            body = bytes(n * 5000 % 200_000)
            count = n % 4
            assert client.call(body, [fd] * count, timeout=20.0)[0] == b"<%d>" % caller * count
        os.close(fd)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(calls, range(6)))


def test_descriptors_that_cannot_be_sent(pair: Pair) -> None:
    client, _ = pair()
    for fds in ([1 << 20], [0] * 17):
        with pytest.raises(UsageError) as caught:
            client.call(b"x", fds)
        assert caught.value.cause == "bad_descriptor"
    assert client.call(b"still fine", timeout=5.0)[0] == b"still fine"
    client, _ = pair(sockets=tcp_pair())
    with pytest.raises(UsageError, match="unix"):
        client.call(b"x", [0])


def test_a_reply_with_a_closed_descriptor_fails_alone(pair: Pair) -> None:
    client, _ = pair(server=lambda c, body, fds: (b"", [1 << 20]))
    with pytest.raises(PeerError, match="descriptors"):
        client.call(b"x", timeout=5.0)
    assert client.lost is None


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (encode(Kind.REQUEST, 1, b"claims too few", 1), 2),
        (encode(Kind.REQUEST, 1, b"claims none", 0), 1),
        (encode(Kind.REQUEST, 1, b"claims too many", 3), 2),
        (encode(Kind.REQUEST, 1, b"more than fit", 16), 20),
        (encode(Kind.REPLY, 77, b"nobody asked", 1), 2),
        (encode(Kind.REQUEST, 1, b"unfinished", 1)[:-1], 2),
        (b"\xff" * 16, 3),
    ],
)
def test_surplus_or_missing_descriptors_end_the_connection(
    poller: Poller, eventually: Eventually, data: bytes, count: int
) -> None:
    hostile, ours = socket.socketpair()
    connection = Connection(ours, lambda c, body, fds: (body, fds))
    poller.watch(connection)
    with hostile:
        socket.send_fds(hostile, [data], [0] * count)
        assert eventually(lambda: connection.lost is not None)
    assert isinstance(connection.lost, PeerError)
    assert connection.lost.cause == "protocol"


def test_unfinished_descriptors_are_closed(poller: Poller, eventually: Eventually) -> None:
    hostile, ours = socket.socketpair()
    connection = Connection(ours, lambda c, body, fds: (body, fds))
    poller.watch(connection)
    with hostile:
        socket.send_fds(hostile, [encode(Kind.REQUEST, 1, b"unfinished", 2)[:-1]], [0, 0])
    assert eventually(lambda: connection.lost is not None)
    assert "in the middle of a frame" in str(connection.lost)


def test_nobody_takes_the_descriptors_of_late_replies(pair: Pair, eventually: Eventually) -> None:
    go = threading.Event()

    def slow(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        go.wait(10.0)
        return b"", [0] * 16

    client, server = pair(server=slow)
    with pytest.raises(Timeout):
        client.call(b"x", timeout=0.02)
    before = len(os.listdir("/proc/self/fd"))
    go.set()
    assert eventually(lambda: server._backlog.requests == 0)
    server.call(b"the reply before this was read", timeout=5.0)
    assert len(os.listdir("/proc/self/fd")) == before


# A peer that does not read


def test_a_full_send_buffer_refuses_and_the_rest_leaves_later(
    pair: Pair, eventually: Eventually
) -> None:
    theirs, ours = socket.socketpair()
    poller = Poller("alone")
    connection = Connection(ours, lambda c, body, fds: (body, ()), limit=16 << 20)
    poller.watch(connection)

    body = bytes(15 << 20)
    for _ in range(4):
        with pytest.raises(Timeout):
            connection.call(body, timeout=0.001)
    with pytest.raises(Full) as caught:
        connection.call(body)
    assert caught.value.cause == "send_buffer"
    client, _ = pair()
    assert client.call(b"others are served", timeout=5.0)[0] == b"others are served"
    received = 0
    theirs.settimeout(10.0)
    while received < 4 * (16 + (15 << 20)):
        received += len(theirs.recv(1 << 20))
    assert eventually(lambda: not connection._outbox.rest)
    assert connection.lost is None
    connection.close()
    poller.close()
    theirs.close()


# Processes


def serve_abstract(parent: Parent) -> None:
    poller = Poller("child")
    gone = threading.Event()

    def answer(connection: Connection, body: bytes, fds: list[int]) -> Answer:
        contents = [os.pread(fd, 100, 0) for fd in fds]
        close_all(fds)
        asked, _ = connection.call(b"who?", timeout=10.0)
        return b"%d:" % os.getpid() + body + asked + b"".join(contents), ()

    def accept(sock: socket.socket) -> Connection:
        return Connection(sock, answer, on_lost=lambda _: gone.set())

    with listen_abstract() as server:
        poller.listen(server, accept)
        parent.tell(server.getsockname().hex())
        assert gone.wait(20.0)
        poller.close()


def test_across_processes(poller: Poller, spawn: Callable[..., Child]) -> None:
    child = spawn(serve_abstract)
    client = Connection(
        dial_abstract(bytes.fromhex(child.hear()), 5.0), lambda c, body, fds: (b" me ", ())
    )
    poller.watch(client)
    memory = os.memfd_create("sent")
    os.write(memory, b"in memory")
    reply, _ = client.call(b"hello", [memory], timeout=10.0)
    os.close(memory)
    assert reply == b"%d:hello me in memory" % child.pid
    assert client.credentials == (child.pid, os.getuid())
    client.close()
    child.result()


def test_a_killed_peer_is_noticed(
    poller: Poller, spawn: Callable[..., Child], eventually: Eventually
) -> None:
    child = spawn(serve_abstract)
    go = threading.Event()

    def hold(_connection: Connection, body: bytes, fds: list[int]) -> Answer:
        go.wait(10.0)
        return body, ()

    client = Connection(dial_abstract(bytes.fromhex(child.hear()), 5.0), hold)
    poller.watch(client)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call, b"x")
        assert eventually(lambda: client._backlog.requests == 1)
        child.kill()
        with pytest.raises(PeerError) as caught:
            call.result(timeout=10.0)
    go.set()
    assert caught.value.cause == "connection_lost"


def test_a_forked_child_abandons_and_the_parent_goes_on(poller: Poller, pair: Pair) -> None:
    client, _ = pair()
    assert client.call(b"before", timeout=5.0)[0] == b"before"
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            fds = len(os.listdir("/proc/self/fd"))
            client.abandon()
            poller.abandon()
            closed = fds - len(os.listdir("/proc/self/fd"))
            try:
                client.call(b"from the child")
            except ForkedError:
                status = 0 if closed == 4 else 2  # two sockets, epoll, eventfd
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert client.call(b"after", timeout=5.0)[0] == b"after"


def test_a_call_is_quick(pair: Pair) -> None:
    """A round trip within one process; a loose bound that only a lost wake-up breaks."""
    client, _ = pair()
    begin = time.monotonic()
    for _ in range(200):
        client.call(b"x", timeout=5.0)
    assert time.monotonic() - begin < 2.0
