"""Channels over tcp whose peer stands still, computes, or takes memory away meanwhile."""

from __future__ import annotations

import gc
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kvferry as kf
from kvferry.engine.messages import DATA
from kvferry.testing import Child
from kvferry.testing.faults import Proxy
from kvferry.testing.faults.units import Case, Way
from kvferry.testing.under_test import in_sight

from .conftest import Pair, _pair, over
from .target import busy, serve
from .window import window

MIB = 1 << 20
SIZE = 4 * MIB
GRACE = 2.0
PATIENCE = 20.0


@pytest.fixture
def wired() -> Iterator[Pair]:
    yield from _pair(over("tcp/host"))


@pytest.fixture
def engine() -> Iterator[kf.Engine]:
    options = replace(kf.config.from_environment(), quiet_grace=GRACE)
    with kf.Engine(options=options) as engine:
        yield engine


Spawn = Callable[..., Child]


def seconds(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def fails(kind: type[kf.Error], work: Callable[[], object]) -> float:
    """Seconds until it has."""

    def check() -> None:
        with pytest.raises(kind):
            work()

    return seconds(check)


def test_a_stopped_peer_costs_each_call_no_more_than_its_timeout(
    spawn: Spawn, engine: kf.Engine
) -> None:
    stopped, other = spawn(serve), spawn(serve)
    addresses = [child.hear() for child in (stopped, other)]
    for child in (stopped, other):
        child.ask(["allocate", "kv", SIZE])
    pool = engine.allocate("pool", SIZE)
    window(pool)[:] = 7
    peer, bystander = (engine.connect(address, path=over("tcp/host")) for address in addresses)
    batch = kf.Batch.of(pool, peer.regions["kv"])
    stopped.stop()
    # The wire owes answers, which costs it a second; the next cannot be dialled.
    assert fails(kf.Timeout, lambda: peer.read(batch, timeout=0.1)) < GRACE + 1
    assert fails(kf.Timeout, lambda: peer.read(batch, timeout=0.1)) < GRACE - 0.5
    assert fails(kf.Timeout, lambda: peer.read_async(batch)) < GRACE + 2
    assert not peer.closed
    bystander.write(kf.Batch.of(pool, bystander.regions["kv"]), timeout=PATIENCE)
    stopped.resume()
    peer.write(batch, timeout=PATIENCE)
    assert stopped.ask(["digest", "kv", 0, SIZE]) == zlib.crc32(bytes([7]) * SIZE)


def test_a_write_that_a_stopped_peer_does_not_answer_is_unknown(
    spawn: Spawn, engine: kf.Engine
) -> None:
    target = spawn(serve)
    address = target.hear()
    target.ask(["allocate", "kv", SIZE])
    peer = engine.connect(address, path=over("tcp/host"))
    batch = kf.Batch.of(bytes([7]) * SIZE, peer.regions["kv"])
    target.stop()
    transfer = peer.write_async(batch)
    with pytest.raises(kf.Timeout) as caught:
        transfer.wait(0.05)
    assert (caught.value.cause, caught.value.safe_to_retry) == ("timeout", False)
    assert (caught.value.bytes_moved, transfer.status) == (None, kf.Status.UNKNOWN)
    assert peer.closed
    path = over("tcp/host")
    assert fails(kf.Timeout, lambda: engine.connect(address, path=path, timeout=0.2)) < 2
    target.resume()
    again = engine.connect(address, path=over("tcp/host"))
    assert again is not peer
    again.write(kf.Batch.of(bytes([9]) * SIZE, again.regions["kv"]), timeout=PATIENCE)
    assert target.ask(["digest", "kv", 0, SIZE]) == zlib.crc32(bytes([9]) * SIZE)


def test_a_wire_that_cannot_be_dialled_costs_connect_no_more_than_its_timeout(
    engine: kf.Engine,
) -> None:
    with kf.Engine("127.0.0.1:0") as target, Proxy.to(target.addresses[0]) as proxy:
        proxy.case = Case("drop_unit", 1, Way.TO_CLIENT, 0, DATA)

        def connect() -> None:
            engine.connect(proxy.address, path=over("tcp/host"), timeout=0.5)

        assert fails(kf.PathRefused, connect) < GRACE - 0.5
        assert target._tcp._server.wires == 0
    assert engine._heartbeats._each == {}


def test_who_dials_holds_up_neither_other_transfers_nor_the_end(
    spawn: Spawn, engine: kf.Engine
) -> None:
    """While the peer's interpreter does not answer, there is one wire for two who want one."""
    target = spawn(busy, SIZE)
    peer = engine.connect(target.hear(), path=over("tcp/host"))
    remote = peer.regions["kv"]
    batch = kf.Batch.of(bytearray(SIZE), remote)
    assert target.ask(4.0) == "now"
    slots = peer._ways[0]._slots  # type: ignore[attr-defined]
    slot = slots.take(1)
    dialling: list[float] = []
    waiter = threading.Thread(
        target=lambda: dialling.append(fails(kf.Error, lambda: peer.read(batch)))
    )
    waiter.start()
    while len(slots._streams) < 2:  # until it dials
        time.sleep(0.001)
    slots.give(slot)
    for _ in range(20):
        assert seconds(lambda: peer.write(batch, timeout=PATIENCE)) < 1
    peer.close()  # would raise NotQuiet
    waiter.join(PATIENCE)
    assert dialling[0] < GRACE + 1.5
    assert target.hear() == "awake"


def test_a_transfer_that_fails_in_step_leaves_its_wire(wired: Pair) -> None:
    batch = wired.batch(4 * MIB)
    for _ in range(5):
        with pytest.raises(kf.Timeout):
            wired.peer.write(batch, timeout=0)
    serving = wired.theirs._tcp._server.wires
    wired.peer.write(batch, timeout=PATIENCE)
    assert serving == wired.theirs._tcp._server.wires == 1


def test_a_region_that_its_owner_took_away_meanwhile_is_closed(wired: Pair) -> None:
    wired.theirs._own.withdraw(wired.far)  # and nobody is told yet
    with pytest.raises(kf.ClosedError) as caught:
        wired.peer.write(wired.batch(4096, offset=8192))
    assert (caught.value.cause, caught.value.index) == ("stale_region", 0)
    assert caught.value.range == (wired.far.address + 8192, 4096)
    if in_sight():  # who only copies cannot look any more
        assert not wired.there().any()
    wired.theirs.unregister(wired.far)


def test_a_closed_channel_keeps_no_pool(wired: Pair) -> None:
    def connect() -> None:
        wired.ours.connect(wired.theirs.addresses[0], path="tcp/host/bounce").close()

    connect()
    gc.disable()
    try:
        before = resident()
        for _ in range(4):
            connect()
        assert resident() - before < 32 * MIB  # a pool has as much
    finally:
        gc.enable()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_nothing_of_a_lost_channel_lands_after_a_new_one_is_open() -> None:
    """The target stands still with frames in its sockets; the initiator gives up and comes anew."""
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        theirs.allocate("kv", MIB)
        address = theirs.addresses[0]
        lost = ours.connect(address, path=over("tcp/host"))
        lost.write(kf.Batch.of(np.ones(MIB, np.uint8), lost.regions["kv"]))
        (inbound,) = theirs._front._inbounds
        connection = inbound._connection
        theirs._poller.forget(connection)  # it will not notice that the peer hangs up
        assert theirs._tcp._server.wires > 0
        lost.end(kf.PeerError("given up", cause="test"))
        assert not inbound.lost
        served_at_welcome = []
        welcome = theirs._front.welcome

        def look(proof: bytes, ticket: bytes) -> object:
            served_at_welcome.append(theirs._tcp._server.wires)
            return welcome(proof, ticket)

        theirs._front.welcome = look
        again = ours.connect(address, path=over("tcp/host"))
        assert inbound.lost
        assert served_at_welcome[0] == 0
        again.write(kf.Batch.of(np.full(MIB, 2, np.uint8), again.regions["kv"]))
        assert set(theirs.regions["kv"].load()) == {2}
        assert ours._channels._given_up.each() == {}
