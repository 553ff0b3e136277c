"""The proxy moves bytes and descriptors as they come, but for the one unit that its case names."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry.engine import messages
from kvferry.rpc import dial_abstract, listen_abstract
from kvferry.rpc.descriptors import ROOM, pack, unpack
from kvferry.rpc.wire import Kind, encode
from kvferry.testing.faults.proxy import Proxy
from kvferry.testing.faults.units import Case, Cutter, Way

HELLO = encode(Kind.REQUEST, 1, messages.encode(messages.Hello(1, "control", 5, b"n" * 32)))
WIRE = encode(Kind.REQUEST, 1, messages.encode(messages.Hello(1, "data", 5, b"n" * 32)))

frames = st.lists(
    st.builds(encode, st.sampled_from(Kind), st.integers(0, 1 << 60), st.binary(max_size=50)),
    max_size=5,
)


@given(frames, st.lists(st.integers(0, 90), max_size=20))
def test_frames_are_cut_out_whatever_the_pieces(sent: list[bytes], sizes: list[int]) -> None:
    stream, cutter, units = b"".join(sent), Cutter(), []
    for size in [*sizes, len(stream)]:
        cutter.feed(stream[:size])
        stream = stream[size:]
        while (unit := cutter.next()) is not None:
            units.append(unit)
    assert units == sent
    assert cutter.rest() == b""


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=9))
def test_what_has_no_frames_passes_as_it_comes(chunks: list[bytes]) -> None:
    cutter = Cutter()
    cutter.framed = False
    for chunk in chunks:
        cutter.feed(chunk)
        assert cutter.next() == chunk
        assert cutter.next() is None


class Ends:
    """A client and a server with a proxy between them."""

    def __init__(self) -> None:
        self._listener = listen_abstract()
        self.proxy = Proxy.at_door(self._listener.getsockname())

    def meet(self, case: Case | None = None) -> tuple[socket.socket, socket.socket]:
        self.proxy.case = case
        client = dial_abstract(self.proxy.name, 5.0)
        server = self._listener.accept()[0]
        for sock in (client, server):
            sock.settimeout(10)
        return client, server

    def close(self) -> None:
        self.proxy.close()
        self._listener.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def drained(sock: socket.socket) -> bytes:
    said = b""
    while more := sock.recv(1 << 16):
        said += more
    return said


def test_everything_passes_both_ways_at_once_and_each_end_alone(ends: Ends) -> None:
    client, server = ends.meet()
    with client, server:
        much = os.urandom(3 << 20)
        heard: list[bytes] = []
        listening = threading.Thread(target=lambda: heard.append(drained(server)))
        listening.start()
        client.sendall(WIRE + much)
        client.shutdown(socket.SHUT_WR)
        listening.join()
        assert heard == [WIRE + much]
        server.sendall(b"and back")
        server.shutdown(socket.SHUT_WR)
        assert drained(client) == b"and back"


def test_descriptors_come_with_their_frames(ends: Ends) -> None:
    client, server = ends.meet()
    with client, server, open(os.devnull, "rb") as file:
        client.sendall(HELLO)
        frame = encode(Kind.REQUEST, 2, b"two", 2)
        client.sendmsg([frame], pack([file.fileno()] * 2))
        assert server.recv(len(HELLO), socket.MSG_WAITALL) == HELLO
        data, ancillary, *_ = server.recvmsg(1000, ROOM)
        fds = unpack(ancillary)
        assert data == frame
        assert [os.readlink(f"/proc/self/fd/{fd}") for fd in fds] == [os.devnull] * 2
        for fd in fds:
            os.close(fd)


def second(mutation: str) -> Case:
    return Case(mutation, 3, Way.TO_SERVER, 1)


@pytest.mark.parametrize(
    ("mutation", "arrives"),
    [
        ("delay", [0, 1, 2]),
        ("drop_unit", [0, 2]),
        ("duplicate", [0, 1, 1, 2]),
        ("reorder", [0, 2, 1]),
    ],
)
def test_a_case_strikes_one_unit_once(ends: Ends, mutation: str, arrives: list[int]) -> None:
    sent = [HELLO, encode(Kind.REQUEST, 2, b"one"), encode(Kind.REQUEST, 3, b"two")]
    for case in (second(mutation), None):
        client, server = ends.meet(case)
        with client, server:
            client.sendall(b"".join(sent))
            client.shutdown(socket.SHUT_WR)
            expected = [sent[at] for at in (arrives if case else range(3))]
            assert drained(server) == b"".join(expected)
        assert ends.proxy.case is None


def test_a_half_closed_way_leaves_the_other(ends: Ends) -> None:
    client, server = ends.meet(second("half_close"))
    with client, server:
        client.sendall(HELLO + encode(Kind.REQUEST, 2, b"x" * 100) + b"never arrives")
        assert drained(server).startswith(HELLO)
        answer = encode(Kind.REPLY, 1, b"still heard")
        server.sendall(answer)
        assert client.recv(100) == answer


def test_a_dropped_connection_is_over_for_both(ends: Ends) -> None:
    client, server = ends.meet(second("drop_connection"))
    with client, server:
        client.sendall(HELLO + encode(Kind.REQUEST, 2, b"x" * 100))
        drained(server)
        assert drained(client) == b""


def test_a_case_of_another_purpose_does_not_strike(ends: Ends) -> None:
    case = second("drop_unit")
    client, server = ends.meet(case)
    with client, server:
        client.sendall(WIRE + encode(Kind.REQUEST, 2, b"one"))
        client.shutdown(socket.SHUT_WR)
        assert drained(server) == WIRE + encode(Kind.REQUEST, 2, b"one")
    assert ends.proxy.case is case
