"""Hostile bytes on wires: at the target's threads, and at who initiates."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from kvferry import _core
from kvferry.testing.faults.frames import (
    ANSWER,
    ANSWER_MAGIC,
    REQUEST,
    REQUEST_MAGIC,
    answer,
    request,
)

SECOND = 1_000_000_000
PAGE = 4096
LIMIT = 1 << 20  # bytes of a frame

Random = np.random.Generator


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname())
        return dialled, listener.accept()[0]


class Target:
    """Three pages, of which peers may write the second."""

    def __init__(self) -> None:
        self.memory = np.full(3 * PAGE, 9, np.uint8)
        self.address = self.memory.ctypes.data + PAGE
        span = _core.Span(self.address, PAGE, self.address, True, _core.OFFER_WRITE)
        self.table = _core.SpanTable()
        self.table.add(span)
        self.span = span
        self.server = _core.WireServer(self.table)

    def dial(self) -> socket.socket:
        ours, theirs = pair()
        assert self.server.serve(theirs.detach(), 1) == 0
        ours.settimeout(20)
        return ours

    def untouched(self) -> bool:
        return bool((self.memory[:PAGE] == 9).all() and (self.memory[2 * PAGE :] == 9).all())


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.server.close()
    assert target.server.wires == 0
    assert target.span.inside == 0
    assert target.untouched()


def drained(sock: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    said = b""
    try:
        while more := sock.recv(1 << 16):
            said += more
    except ConnectionResetError:
        pass
    return said


def told(sock: socket.socket) -> tuple[int, ...]:
    """One answer."""
    return ANSWER.unpack(sock.recv(ANSWER.size, socket.MSG_WAITALL))


# ---- at the target ----

# Headers after which nobody knows where the next frame begins.
MALFORMED: dict[str, Callable[[int], bytes]] = {
    "wrong magic": lambda at: request(0, [(at, 8)], magic=REQUEST_MAGIC ^ 1),
    "an answer": lambda at: request(0, [(at, 8)], magic=ANSWER_MAGIC),
    "unknown operation": lambda at: request(2, [(at, 8)]),
    "no pieces": lambda at: request(0, [], bytes=8),
    "too many pieces": lambda at: request(0, [(at, 1)], pieces=1025),
    "all the pieces there are": lambda at: request(0, [(at, 1)], pieces=(1 << 32) - 1),
    "no bytes": lambda at: request(0, [(at, 8)], bytes=0),
    "more bytes than a frame has": lambda at: request(0, [(at, 8)], bytes=LIMIT + 1),
    "all the bytes there are": lambda at: request(0, [(at, 8)], bytes=(1 << 64) - 1),
    "no run": lambda at: request(0, [(at, 8)], run=0),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_header_ends_the_wire(target: Target, name: str) -> None:
    with target.dial() as sock:
        sock.sendall(MALFORMED[name](target.address) + b"x" * 100)
        assert drained(sock) == b""
    assert (target.memory == 9).all()


WHOLE = 1 << 64

# pieces -> (verdict, which piece), relative to the page that may be written
DENIED: dict[str, tuple[list[tuple[int, int]], dict[str, int], int, int]] = {
    "before the region": ([(-1, 8)], {}, _core.UNKNOWN, 0),
    "behind the region": ([(0, 8), (PAGE, 8)], {}, _core.UNKNOWN, 1),
    "leaves it": ([(0, 8), (PAGE - 7, 8)], {}, _core.LEAVES, 1),
    "empty piece": ([(0, 8), (8, 0)], {}, _core.LEAVES, 1),
    "longer than the frame": ([(0, 16)], {"bytes": 8}, _core.LEAVES, 0),
    "shorter than the frame": ([(0, 8), (8, 8)], {"bytes": 24}, _core.LEAVES, 1),
    "sums that wrap": ([(0, 16), (0, WHOLE - 8)], {"bytes": 8}, _core.LEAVES, 0),
    "a piece as long as memory": ([(0, WHOLE - 1)], {"bytes": 8}, _core.LEAVES, 0),
}


@pytest.mark.parametrize("op", [_core.WRITE, _core.READ])
@pytest.mark.parametrize("name", DENIED)
def test_a_frame_is_denied_as_a_whole_and_the_next_is_served(
    target: Target, name: str, op: int
) -> None:
    pieces, changed, verdict, index = DENIED[name]
    places = [(target.address + offset, length) for offset, length in pieces]
    head = request(op, places, tag=5, **changed)
    size = REQUEST.unpack(head[:32])[-1]
    with target.dial() as sock:
        sock.sendall(head + (b"x" * size if op == _core.WRITE else b""))
        address = places[index][0]
        assert told(sock) == (ANSWER_MAGIC, 1, 5, verdict, _core.REMOTE, address, 0)
        assert (target.memory == 9).all()
        dropped = request(_core.WRITE, [(target.address, 4)], tag=6) + b"more"
        sock.sendall(dropped)
        assert told(sock) == (ANSWER_MAGIC, 2, 6, 0, 0, 0, 0)
        sock.sendall(request(_core.WRITE, [(target.address, 4)], tag=7, run=2) + b"good")
        assert told(sock) == (ANSWER_MAGIC, 0, 7, 0, 0, 0, 4)
    assert target.memory[PAGE : PAGE + 4].tobytes() == b"good"


def test_pieces_that_overlap_stay_within_the_region(target: Target) -> None:
    places = [(target.address, PAGE)] * 3 + [(target.address + 5, 9)] * 100
    size = sum(length for _, length in places)
    with target.dial() as sock:
        sock.sendall(request(_core.WRITE, places) + bytes(size))
        assert told(sock)[1] == 0
        sock.sendall(request(_core.READ, places, tag=1))
        assert told(sock)[-1] == size
        assert sock.recv(size, socket.MSG_WAITALL) == bytes(size)


def mutated(data: bytes, random: Random) -> bytes:
    """Some bits turned, a stretch left out or doubled, or cut off."""
    changed = bytearray(data)
    for _ in range(random.integers(0, 4)):
        changed[random.integers(len(changed))] ^= 1 << random.integers(8)
    start, stop = sorted(random.integers(0, len(changed) + 1, 2))
    match random.integers(4):
        case 0:
            del changed[start:stop]
        case 1:
            changed[start:start] = changed[start:stop]
        case 2:
            del changed[stop:]
    return bytes(changed)


@pytest.mark.parametrize("seed", range(4))
def test_noise_changes_nothing_that_was_not_offered(target: Target, seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(60):
        stream = b""
        for tag in range(random.integers(1, 5)):
            op, run = int(random.integers(2)), int(random.integers(1, 3))
            offsets = random.integers(-64, PAGE + 64, random.integers(1, 20))
            places = [(target.address + int(at), int(random.integers(1, 200))) for at in offsets]
            body = random.bytes(sum(n for _, n in places)) if op == _core.WRITE else b""
            stream += request(op, places, tag=tag, run=run) + body
        with target.dial() as sock:
            sock.sendall(random.bytes(300) if random.integers(8) == 0 else mutated(stream, random))
            if random.integers(3):
                sock.shutdown(socket.SHUT_WR)
                drained(sock)
        assert target.untouched()
    with target.dial() as sock:
        sock.sendall(request(_core.WRITE, [(target.address, 4)]) + b"good")
        assert told(sock)[1] == 0


# ---- at the initiator ----


class Initiator:
    """One run of `size` bytes over a wire whose other end is ours to answer."""

    def __init__(self, op: int, size: int) -> None:
        self.memory = np.full(size + 2 * PAGE, 9, np.uint8)
        self.engines = _core.CopyEngines(0)
        ours, self.peer = pair()
        self.peer.settimeout(20)
        self.wire = _core.Wire(ours.detach())
        self.stream = _core.Stream(self.engines, self.wire)
        self.done = _core.Done(self.engines)
        rows = np.array([[self.memory.ctypes.data + PAGE, 1 << 40, size]], np.uint64)
        self.d = _core.Descriptors(rows)
        assert self.stream.copy(op, self.d, self.done)
        assert self.stream.flag(self.done, 0, False)
        deadline = _core.now() + 20 * SECOND
        self.thread = threading.Thread(target=self.stream.help, args=(self.done, deadline))
        self.thread.start()

    def outcome(self) -> int:
        self.thread.join()
        assert self.done.quiet
        edges = np.concatenate([self.memory[:PAGE], self.memory[-PAGE:]])
        assert (edges == 9).all()
        self.peer.close()
        return self.done.outcome


def reply(**changed: int) -> bytes:
    return answer(**{"bytes": PAGE} | changed)


FORGED: dict[str, bytes] = {
    "wrong magic": reply(magic=REQUEST_MAGIC),
    "another frame's": reply(tag=1),
    "more than was asked for": reply(bytes=PAGE + 1),
    "all the bytes there are": reply(bytes=(1 << 64) - 1),
    "less than was asked for": reply(bytes=PAGE - 1),
    "unknown status": reply(status=3),
    "dropped without a reason": reply(status=2, bytes=0),
    "denied, and moved": reply(status=1, verdict=_core.UNKNOWN, side=_core.REMOTE),
    "denied for nothing": reply(status=1, side=_core.REMOTE, bytes=0),
    "denied for what peers do not judge": reply(
        status=1, verdict=_core.MIXED, side=_core.REMOTE, bytes=0
    ),
    "denied on our side": reply(status=1, verdict=_core.UNKNOWN, side=_core.LOCAL, bytes=0),
}


@pytest.mark.parametrize("op", [_core.WRITE, _core.READ])
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_answer_ends_the_wire(name: str, op: int) -> None:
    run = Initiator(op, PAGE)
    run.peer.recv(48, socket.MSG_WAITALL)
    run.peer.sendall(FORGED[name] + b"x" * 2 * PAGE)
    assert run.outcome() == _core.LOST
    assert run.wire.dead
    assert (run.memory == 9).all()


def test_what_nobody_asked_for_reaches_no_memory() -> None:
    run = Initiator(_core.READ, PAGE)
    run.peer.recv(48, socket.MSG_WAITALL)
    run.peer.sendall(reply() + b"y" * PAGE + reply(tag=1) + b"x" * PAGE)
    assert run.outcome() == _core.OK
    assert run.memory[PAGE:-PAGE].tobytes() == b"y" * PAGE


@pytest.mark.parametrize("cut", [1, 39, 40, 41, 40 + PAGE - 1])
def test_an_answer_that_breaks_off(cut: int) -> None:
    run = Initiator(_core.READ, PAGE)
    run.peer.recv(48, socket.MSG_WAITALL)
    run.peer.sendall((reply() + b"y" * PAGE)[:cut])
    run.peer.shutdown(socket.SHUT_WR)
    assert run.outcome() == _core.LOST


@pytest.mark.parametrize("seed", range(3))
def test_noise_ends_the_run(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(25):
        op = int(random.integers(2))
        run = Initiator(op, 3 * PAGE)
        said = reply(bytes=3 * PAGE) + (random.bytes(3 * PAGE) if op else b"")
        run.peer.recv(48, socket.MSG_WAITALL)
        run.peer.sendall(mutated(said, random))
        run.peer.shutdown(socket.SHUT_WR)
        assert run.outcome() in (_core.OK, _core.LOST)
