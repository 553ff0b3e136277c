"""What reaches the port and the door of an engine from somebody who is not a friend."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvferry as kf
from kvferry.engine import messages
from kvferry.engine.messages import Hello
from kvferry.memory import RegionRecord

from .conftest import MIB

HEADER = struct.Struct("<IBBHQ")
REQUEST, REPLY = 1, 2


@pytest.fixture
def engine() -> Iterator[kf.Engine]:
    with kf.Engine("127.0.0.1:0") as engine:
        engine.allocate("kv", MIB)
        yield engine


def dial(engine: kf.Engine, door: bool = False) -> socket.socket:
    if door:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(engine._front._door)
    else:
        host, port = engine.addresses[0].rsplit(":", 1)
        sock = socket.create_connection((host, int(port)))
    sock.settimeout(10)
    return sock


def frame(body: bytes, kind: int = REQUEST, call: int = 1) -> bytes:
    return HEADER.pack(len(body), kind, 0, 0, call) + body


def answer(sock: socket.socket) -> messages.Message | None:
    """The next answer; None when the engine hung up instead."""
    with contextlib.suppress(ConnectionResetError):
        head = receive(sock, HEADER.size)
        if head:
            length, kind, *_ = HEADER.unpack(head)
            assert kind == REPLY
            return messages.decode(receive(sock, length))
    return None


def receive(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length and (chunk := sock.recv(length - len(data))):
        data += chunk
    return data


def serves_friends(engine: kf.Engine) -> bool:
    with kf.Engine() as friend:
        return set(friend.connect(engine.addresses[0]).regions) == {"kv"}


fuzz = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@fuzz
@given(junk=st.binary(max_size=2000), door=st.booleans())
def test_junk_gets_nothing(engine: kf.Engine, junk: bytes, door: bool) -> None:
    with dial(engine, door) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(junk)
            sock.shutdown(socket.SHUT_WR)
        while (said := answer(sock)) is not None:
            assert isinstance(said, messages.Refusal)


@fuzz
@given(body=st.binary(max_size=500), door=st.booleans())
def test_whole_frames_of_junk_are_refused(engine: kf.Engine, body: bytes, door: bool) -> None:
    with dial(engine, door) as sock:
        sock.sendall(frame(body))
        said = answer(sock)
        assert isinstance(said, messages.Refusal)
        assert said.cause == "protocol"


RECORD = RegionRecord(1, "kv", True, 4096, 4096, 4096, 4096, False)
UNASKED = [
    messages.ListRegions("fabric", "tcp", 0),
    messages.Call("echo", b""),
    messages.Notify("x", b""),
    messages.Announce(RECORD),
    messages.Revoke(1),
    messages.Proof(b"x" * 32, "me", messages.Facts(1, "", 0, {})),
    messages.Welcome(b"", "me", messages.Facts(1, "", 0, {}), b"", b""),
    messages.Result(b""),
]


@pytest.mark.parametrize("message", UNASKED, ids=lambda message: type(message).__name__)
def test_nothing_is_answered_before_the_proof(engine: kf.Engine, message: messages.Message) -> None:
    hello = messages.encode(Hello(messages.VERSION, "control", 5, b"n" * 32))
    for first in (b"", frame(hello)):
        with dial(engine) as sock:
            if first:
                sock.sendall(first)
                assert isinstance(answer(sock), messages.Challenge)
            sock.sendall(frame(messages.encode(message), call=2))
            said = answer(sock)
        assert isinstance(said, messages.Refusal)
        assert said.cause in ("protocol", "token")
    assert not engine.notifications(0)


def test_one_guess_a_connection(engine: kf.Engine) -> None:
    with dial(engine) as sock:
        hello = messages.encode(Hello(messages.VERSION, "control", 5, b"n" * 32))
        proof = messages.encode(messages.Proof(b"x" * 32, "me", messages.Facts(5, "", 0, {})))
        causes = []
        for body in (hello, proof, proof, hello):
            sock.sendall(frame(body))
            said = answer(sock)
            causes.append(said.cause if isinstance(said, messages.Refusal) else None)
    assert causes == [None, "token", "protocol", "protocol"]


@pytest.mark.parametrize("length", [1 << 20, 1 << 31, (1 << 32) - 1])
def test_huge_lengths_end_the_connection(engine: kf.Engine, length: int) -> None:
    with dial(engine) as sock:
        sock.sendall(HEADER.pack(length, REQUEST, 0, 0, 1))
        assert sock.recv(1) == b""


def test_friends_are_served_after_all_that(engine: kf.Engine) -> None:
    silent = [dial(engine) for _ in range(20)]
    for sock in silent[:10]:
        sock.sendall(b"\x10\x00")
    assert serves_friends(engine)
    for sock in silent:
        sock.close()


@fuzz
@given(body=st.binary(max_size=300))
def test_decode_raises_peer_errors_only(body: bytes) -> None:
    with contextlib.suppress(kf.PeerError):
        messages.decode(body)
