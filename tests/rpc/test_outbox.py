"""What waits to be sent: in order, bounded, with descriptors of its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from kvferry.errors import Full, PeerError, UsageError
from kvferry.rpc.descriptors import ROOM, close_all, unpack
from kvferry.rpc.outbox import Outbox

FRAME = os.urandom(1 << 20)  # more than a socket takes at once


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def drain(sock: socket.socket) -> bytes:
    received = bytearray()
    try:
        while data := sock.recv(1 << 20):
            received += data
    except BlockingIOError:
        pass
    return bytes(received)


def test_frames_leave_whole_and_in_order(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    outbox = Outbox(ours)
    frames = [FRAME, b"small", FRAME[::-1]]
    for frame in frames:
        outbox.send(frame)
    received = b""
    while outbox.rest:
        received += drain(theirs)
        outbox.flush()
    assert received + drain(theirs) == b"".join(frames)


def test_a_full_outbox_refuses_and_goes_on(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    outbox = Outbox(ours, capacity=len(FRAME) + 10)
    outbox.send(FRAME)
    with pytest.raises(Full) as caught:
        outbox.send(FRAME)
    assert caught.value.cause == "send_buffer"
    received = b""
    while outbox.rest:
        received += drain(theirs)
        outbox.flush()
    outbox.send(b"again")
    assert received + drain(theirs) == FRAME + b"again"


def test_kept_descriptors_survive_their_lender(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    outbox = Outbox(ours)
    outbox.send(FRAME)
    reading, writing = os.pipe()
    outbox.send(b"with a pipe", [writing])
    os.close(writing)
    received, fds = b"", []
    while not received.endswith(b"with a pipe"):
        outbox.flush()
        data, ancillary, _, _ = theirs.recvmsg(1 << 20, ROOM)
        received += data
        fds += unpack(ancillary)
    os.write(fds[0], b"through")
    assert os.read(reading, 16) == b"through"
    close_all([reading, *fds])


def test_closing_drops_the_rest_with_its_descriptors(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    outbox = Outbox(ends[0])
    outbox.send(FRAME)
    outbox.send(b"never", [0])
    outbox.close()
    with pytest.raises(PeerError):
        outbox.send(b"late")


def test_a_closed_descriptor_is_the_callers_fault(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    outbox = Outbox(ours)
    with pytest.raises(UsageError) as caught:
        outbox.send(b"never", [1 << 20])
    assert caught.value.cause == "bad_descriptor"
    outbox.send(b"fine")
    assert drain(theirs) == b"fine"


def test_a_broken_connection_is_the_peers_fault(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].close()
    with pytest.raises(PeerError) as caught:
        Outbox(ends[0]).send(b"nobody")
    assert caught.value.cause == "connection_lost"
