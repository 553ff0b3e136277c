"""Channels that ended without their peer's knowledge: nothing lands once a new one is open."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import kvferry as kf
from kvferry.engine import channels, connect, messages
from kvferry.engine.given_up import GIVEN_UP_KEPT, GivenUp
from kvferry.engine.inbound import Inbound
from kvferry.engine.messages import DATA
from kvferry.engine.tenants import Keyring
from kvferry.link import Facts
from kvferry.memory import Visitor
from kvferry.testing import Child

from .quick import MIB, quick, serve_quickly

GONE = kf.PeerError("given up", cause="test")


@pytest.fixture
def both() -> Iterator[tuple[kf.Engine, kf.Engine]]:
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        theirs.allocate("kv", MIB)
        yield ours, theirs


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """Tickets that were given up, for each peer that was met."""
    told: list[list[bytes]] = []

    def meet(us: connect.Identity, *rest: object) -> connect.Met:
        met = connect.meet(us, *rest)  # type: ignore[arg-type]
        told.append([*us.given_up.get(met.facts.epoch, ())])
        return met

    monkeypatch.setattr(channels, "meet", meet)
    return told


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def received(address: str) -> int:
    """Bytes that the kernel holds for whoever listens there."""
    port = int(address.rpartition(":")[2])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        int(row[4].partition(":")[2], 16)
        for row in rows
        if int(row[1].partition(":")[2], 16) == port and row[3] == "01"
    )


def test_one_that_was_closed_over_a_write_that_nobody_answered(
    spawn: Callable[..., Child], told: list[list[bytes]]
) -> None:
    child = spawn(serve_quickly)
    with kf.Engine(options=quick()) as engine:
        address = child.hear()
        peer = engine.connect(address, path="tcp/host")
        batch = kf.Batch.of(np.full(MIB, 7, np.uint8), peer.regions["kv"])
        peer.write(batch)
        child.stop()
        transfer = peer.write_async(batch)
        until(lambda: received(address) > MIB // 4)
        peer.close()
        assert transfer.status is kf.Status.UNKNOWN
        child.resume()
        again = engine.connect(address, path="tcp/host", timeout=10)
        again.write(kf.Batch.of(np.full(MIB, 9, np.uint8), again.regions["kv"]))
        again.close()
        engine.connect(address, path="tcp/host")
        child.tell(0)
        assert child.hear() == "now"
        assert child.hear()[1] == "09090909"
    assert told == [[], [peer.ticket], []]


def test_one_that_is_lost_while_another_is_connected_is_told_of_next(
    both: tuple[kf.Engine, kf.Engine],
    told: list[list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = both
    address = theirs.addresses[0]
    first = ours.connect(address, path="tcp/host")
    meet = channels.__dict__["meet"]

    def lose_first(*args: object) -> connect.Met:
        met: connect.Met = meet(*args)
        first.end(GONE)
        return met

    with monkeypatch.context() as patch:
        patch.setattr(channels, "meet", lose_first)
        ours.connect(address, path="tcp/host", streams=5)
    ours.connect(address, path="tcp/host")
    ours.connect(address, path="tcp/host", streams=6)
    assert told == [[], [], [first.ticket], []]


def test_one_that_has_not_ended_yet(
    both: tuple[kf.Engine, kf.Engine],
    told: list[list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever waited for a transfer of it may be told of the loss before all others are quiet."""
    ours, theirs = both
    peer = ours.connect(theirs.addresses[0], path="tcp/host")
    proceed, ending = threading.Event(), threading.Event()
    drop_all = peer.known_regions.drop_all

    def take_long() -> None:
        ending.set()
        proceed.wait(20)
        drop_all()

    monkeypatch.setattr(peer.known_regions, "drop_all", take_long)
    loser = threading.Thread(target=peer.end, args=(GONE,))
    loser.start()
    assert ending.wait(20)
    ours.connect(theirs.addresses[0], path="tcp/host")
    assert told[1:] == [[peer.ticket]]
    proceed.set()
    loser.join()


def test_a_wire_that_arrives_after_that_is_not_served(both: tuple[kf.Engine, kf.Engine]) -> None:
    """Its handshake was over, and the target stood still before it served the first frame."""
    ours, theirs = both
    ours.connect(theirs.addresses[0])  # over fabric: no wires
    (inbound,) = theirs._front._inbounds
    front = theirs._front
    front.end_given_up([inbound.ticket], inbound.visitor)
    served: list[int] = []
    theirs._tcp._server = Watched(theirs._tcp._server, served)  # type: ignore[assignment]
    here, there = socket.socketpair()
    with here, pytest.raises(kf.PeerError):
        front.take(DATA, Inbound(front, Keyring(b"-")), inbound, there)
    assert there.fileno() == -1
    assert not served


class Watched:
    """A WireServer that keeps a list of what it served."""

    def __init__(self, real: object, served: list[int]) -> None:
        self._real = real
        self._served = served

    def serve(self, fd: int, number: int, *visitor: int) -> int:
        self._served.append(number)
        return self._real.serve(fd, number, *visitor)  # type: ignore[attr-defined, no-any-return]

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def test_nobody_ends_what_is_another_epochs(both: tuple[kf.Engine, kf.Engine]) -> None:
    ours, theirs = both
    peer = ours.connect(theirs.addresses[0])
    (inbound,) = theirs._front._inbounds
    theirs._front.end_given_up([inbound.ticket], Visitor(ours.epoch ^ 1))
    theirs._front.end_given_up([b"", bytes(16), *map(bytes, range(5000))], inbound.visitor)
    assert not inbound.lost
    peer.write(kf.Batch.of(np.ones(MIB, np.uint8), peer.regions["kv"]))


def test_the_oldest_epochs_are_forgotten() -> None:
    given_up = GivenUp()
    for epoch in range(GIVEN_UP_KEPT + 1):
        given_up.add(epoch, b"a")
        given_up.add(epoch, b"b")
    kept = given_up.each()
    assert len(kept) == GIVEN_UP_KEPT
    assert 0 not in kept
    assert kept[1] == (b"a", b"b")
    given_up.told(1, [b"a", b"c"])
    given_up.told(2, [b"a", b"b"])
    given_up.told(0, [b"a"])
    assert (given_up.each()[1], 2 in given_up.each()) == ((b"b",), False)


@pytest.mark.parametrize("tickets", [[bytes(17)], [bytes(16)] * 2049], ids=["long", "many"])
def test_tickets_that_none_of_us_would_tell_are_no_message(tickets: list[bytes]) -> None:
    facts = Facts(epoch=1, boot="", network=0, links={})
    told = messages.encode(messages.Proof(b"", "somebody", facts, b"", tickets))
    with pytest.raises(kf.PeerError, match="not a message"):
        messages.decode(told)
