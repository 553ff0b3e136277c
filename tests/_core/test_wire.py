"""Wires as Python sees them: who owns the socket, what ends them, and signals while one waits."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from kvferry import _core

SECOND = 1_000_000_000
SIZE = 64 << 10

Bytes = npt.NDArray[np.uint8]
Arrays = tuple[Bytes, Bytes]


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname())
        return dialled, listener.accept()[0]


class Run:
    """One transfer between two arrays, over a wire's stream."""

    def __init__(self, wire: _core.Wire, here: Bytes, there: Bytes, op: int) -> None:
        self.engines = _core.CopyEngines(0)
        self.stream = _core.Stream(self.engines, wire)
        self.done = _core.Done(self.engines)
        rows = np.array([[here.ctypes.data, there.ctypes.data, SIZE]], np.uint64)
        self.d = _core.Descriptors(rows)
        assert self.stream.copy(op, self.d, self.done)
        assert self.stream.flag(self.done, 0, False)

    def help(self) -> int:
        self.stream.help(self.done, _core.now() + 20 * SECOND)
        assert self.done.quiet
        return self.done.outcome


@pytest.fixture
def arrays() -> Arrays:
    return np.arange(SIZE, dtype=np.uint8), np.zeros(SIZE, np.uint8)


class Served:
    """A wire, and who serves it."""

    def __init__(self, there: Bytes) -> None:
        address = there.ctypes.data
        table = _core.SpanTable()
        table.add(_core.Span(address, SIZE, address, True, _core.OFFER_WRITE))
        self.server = _core.WireServer(table)
        ours, theirs = pair()
        assert self.server.serve(theirs.detach(), 1) == 0
        self.wire = _core.Wire(ours.detach())

    def close(self) -> None:
        del self.wire
        self.server.close()


@pytest.fixture
def served(arrays: Arrays) -> Iterator[Served]:
    served = Served(arrays[1])
    yield served
    served.close()


def test_bytes_cross(served: Served, arrays: Arrays) -> None:
    here, there = arrays
    run = Run(served.wire, here, there, _core.WRITE)
    assert run.help() == _core.OK
    assert np.array_equal(here, there)
    assert run.done.served == SIZE
    assert not served.wire.dead


def test_a_killed_wire_loses_every_run(served: Served, arrays: Arrays) -> None:
    served.wire.kill()
    assert served.wire.dead
    for op in (_core.WRITE, _core.READ):
        assert Run(served.wire, *arrays, op).help() == _core.LOST


def test_a_wire_and_its_server_own_their_sockets() -> None:
    before = len(os.listdir("/proc/self/fd"))
    server = _core.WireServer(_core.SpanTable())
    ours, theirs = pair()
    assert server.serve(theirs.detach(), 7) == 0
    wire = _core.Wire(ours.detach())
    assert (server.wires, len(os.listdir("/proc/self/fd"))) == (1, before + 2)
    del wire
    server.close()
    assert (server.wires, len(os.listdir("/proc/self/fd"))) == (0, before)


def test_a_closed_server_takes_no_more() -> None:
    server = _core.WireServer(_core.SpanTable())
    server.close()
    server.close()
    ours, theirs = pair()
    with ours:
        assert server.serve(theirs.detach(), 1) != 0
        assert ours.recv(1) == b""


def test_a_dropped_server_ends_its_threads() -> None:
    server = _core.WireServer(_core.SpanTable())
    ours, theirs = pair()
    assert server.serve(theirs.detach(), 1) == 0
    del server
    with ours:
        assert ours.recv(1) == b""


def test_wires_that_ended_are_cleared_away() -> None:
    server = _core.WireServer(_core.SpanTable())
    before = len(os.listdir("/proc/self/fd"))
    for owner in range(50):
        ours, theirs = pair()
        assert server.serve(theirs.detach(), owner) == 0
        ours.close()
        while server.wires:
            time.sleep(0.001)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    server.close()


class Alarm(Exception):
    pass


def test_a_signal_whose_handler_raises_stops_the_run(arrays: Arrays) -> None:
    """The peer says nothing, and who waits is the one who carries it out."""

    def ring(*_: object) -> None:
        raise Alarm

    ours, theirs = pair()
    run = Run(_core.Wire(ours.detach()), *arrays, _core.READ)
    before = signal.signal(signal.SIGUSR1, ring)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Alarm):
            run.help()
    finally:
        signal.signal(signal.SIGUSR1, before)
        timer.join()
        theirs.close()
    assert run.done.quiet
    assert run.done.outcome == _core.ABORTED


def test_a_signal_whose_handler_returns_stops_nothing(arrays: Arrays) -> None:
    heard: list[int] = []
    ours, theirs = pair()
    run = Run(_core.Wire(ours.detach()), *arrays, _core.READ)
    before = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))

    def answer() -> None:
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGUSR1)
        while not heard:
            time.sleep(0.01)
        theirs.recv(48, socket.MSG_WAITALL)
        head = np.array([0x4146564B, 0, 0, 0, 0, 0, 0, 0, SIZE, 0], np.uint32)
        theirs.sendall(head.tobytes() + bytes(SIZE))

    peer = threading.Thread(target=answer)
    peer.start()
    try:
        assert run.help() == _core.OK
    finally:
        signal.signal(signal.SIGUSR1, before)
        peer.join()
        theirs.close()
    assert not np.any(arrays[0])


def test_in_a_forked_child_the_parents_wire_lives_on(served: Served, arrays: Arrays) -> None:
    server, wire = served.server, served.wire
    child = os.fork()
    if child == 0:
        server.forked()
        wire.forked()
        server.close()
        os._exit(0 if wire.dead else 1)
    assert os.waitpid(child, 0)[1] == 0
    del server, wire
    assert Run(served.wire, *arrays, _core.WRITE).help() == _core.OK
