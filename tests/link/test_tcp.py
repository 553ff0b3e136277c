"""The tcp link keeps the contract, over IPv4 and IPv6, and what only wires can do wrong."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from kvferry import _core
from kvferry.batch import Batch, buffer_of
from kvferry.errors import PathRefused, PeerError, Timeout, UsageError
from kvferry.link import Driver, FabricDriver, Facts, Peer, TcpDriver
from kvferry.memory import Region, Visitor, resolve
from kvferry.path import LinkKind, Path, SubmitterKind
from kvferry.runtime import HostRuntime
from kvferry.submit import SlotPool, Submitters
from kvferry.testing.link_contract import (
    EPOCH,
    MIB,
    PATIENCE,
    SECOND,
    Bench,
    LinkContract,
    contents,
    noise,
)

LISTENING: dict[str, dict[str, int | str]] = {"tcp": {"address": "10.0.0.1:7000"}}
# What an abort may take when the peer says nothing, with room for a busy machine.
STALL = 5.0


def pair(family: int = socket.AF_INET) -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection within this host."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=family) as listener:
        dialled = socket.create_connection(listener.getsockname()[:2])
        return dialled, listener.accept()[0]


class Owner:
    """Somebody whose connection is not lost yet."""

    lost = False
    visitor = Visitor(EPOCH)


US, ANOTHER = Owner(), Owner()


class WireBench(Bench):
    """Dials the owner's driver, and proves nothing."""

    family: int = socket.AF_INET

    def wire(self, deadline: int | None = None) -> socket.socket:
        ours, theirs = pair(self.family)
        self.owner.serve(theirs, US)
        return ours


class WireBench6(WireBench):
    family = socket.AF_INET6


class TestTcp(LinkContract):
    submitters = (SubmitterKind.HOST,)
    make_bench = WireBench

    @staticmethod
    def make_driver(bench: Bench) -> Driver:
        return TcpDriver(bench.published)

    @pytest.mark.parametrize("block", [4 << 10, 192 << 10, MIB + 8, 16 * MIB])
    def test_blocks_of_all_sizes_cross_both_ways(self, bench: Bench, block: int) -> None:
        count = max(2, min(64, 32 * MIB // block))
        region = bench.region(count * block)
        remote = bench.attach(region)
        here, order = noise(block, count * block), np.random.default_rng(1).permutation(count)
        bench.run(_core.WRITE, Batch.blocks(here, order, remote, np.arange(count), block))
        there = here.reshape(count, block)[order]
        assert np.array_equal(contents(region).reshape(count, block), there)
        back = np.zeros_like(here)
        bench.run(_core.READ, Batch.blocks(back, order, remote, np.arange(count), block))
        assert np.array_equal(back, here)

    def test_more_pieces_than_a_frame_has(self, bench: Bench) -> None:
        count, block = 5000, 40
        region = bench.region(2 * count * block)
        remote = bench.attach(region)
        here, apart = noise(2, count * block), 2 * np.random.default_rng(3).permutation(count)
        bench.run(_core.WRITE, Batch.blocks(here, np.arange(count), remote, apart, block))
        blocks = contents(region).reshape(2 * count, block)
        assert np.array_equal(blocks[apart], here.reshape(count, block))
        assert not blocks[1::2].any()
        back = np.zeros_like(here)
        bench.run(_core.READ, Batch.blocks(back, np.arange(count), remote, apart, block))
        assert np.array_equal(back, here)

    def test_memory_that_was_merely_registered_is_reached(self, bench: Bench) -> None:
        memory = bytearray(3 * MIB)
        region = Region(99, "foreign", buffer_of(memory), len(memory))
        bench.published.add(region.span)
        remote = bench.attach(region)
        assert not remote.own
        here = noise(4, len(memory))
        bench.run(_core.WRITE, Batch.of(here, remote))
        assert memory == here.tobytes()
        bench.published.discard(region.span)


class TestTcp6(TestTcp):
    make_bench = WireBench6


@pytest.fixture
def bench() -> Iterator[WireBench]:
    bench = WireBench(lambda bench: TcpDriver(bench.published), SubmitterKind.HOST)
    yield bench
    bench.close()


# ---- refusals of the target ----


def test_a_region_that_went_meanwhile_is_refused_and_the_wire_stays(bench: WireBench) -> None:
    gone, kept = bench.region(64 << 10), bench.region(64 << 10)
    batch = Batch.of(noise(1, 64 << 10), bench.attach(gone))
    there = Batch.of(noise(2, 64 << 10), bench.attach(kept))
    bench.published.discard(gone.span)
    for op in (_core.WRITE, _core.READ):
        flying = bench.start(op, batch)
        assert flying.done.wait(_core.now() + PATIENCE)
        assert flying.done.refused == (_core.UNKNOWN, _core.REMOTE, gone.address)
        lent = flying.lent
        flying.d.release()
        assert (flying.done.outcome, flying.done.begun) == (_core.REFUSED, True)
        assert lent is not None
        bench.link.release(lent, False)  # the same wire again
    assert not contents(gone).any()
    bench.run(_core.WRITE, there)
    assert np.array_equal(contents(kept), noise(2, 64 << 10))
    bench.published.add(gone.span)


# ---- a region goes while a peer stands still ----


def test_unregistering_does_not_wait_for_a_peer_that_stands_still(bench: WireBench) -> None:
    region = bench.region(MIB)
    ours = bench.wire()
    head = np.array([0x5146564B, 0], np.uint32).tobytes() + (0).to_bytes(8, "little")
    head += np.array([1, 1], np.uint32).tobytes() + MIB.to_bytes(8, "little")
    place = region.address.to_bytes(8, "little") + MIB.to_bytes(8, "little")
    with ours:
        ours.sendall(head + place + b"x" * 5000)
        while not region.span.inside:
            time.sleep(0.001)
        bench.published.discard(region.span)
        region.span.close()
        assert region.span.drain(_core.now() + SECOND)
        assert ours.recv(1) == b""
    assert not contents(region)[5000:].any()


# ---- peers that say nothing, or leave ----


class SilentBench(WireBench):
    """Whose wires end at nobody."""

    def __init__(self) -> None:
        self.ends: list[socket.socket] = []
        super().__init__(lambda bench: TcpDriver(bench.published), SubmitterKind.HOST)

    def wire(self, deadline: int | None = None) -> socket.socket:
        ours, theirs = pair()
        self.ends.append(theirs)
        return ours

    def close(self) -> None:
        super().close()
        for end in self.ends:
            end.close()


@pytest.fixture
def silent() -> Iterator[SilentBench]:
    bench = SilentBench()
    yield bench
    bench.close()


@pytest.mark.parametrize(
    ("op", "outcome"), [(_core.WRITE, _core.LOST), (_core.READ, _core.ABORTED)]
)
def test_an_abort_has_patience_with_a_silent_peer_for_a_second(
    silent: SilentBench, op: int, outcome: int
) -> None:
    here = np.ones(8 * MIB, np.uint8)
    flying = silent.start(op, Batch.of(here, silent.attach(silent.region(8 * MIB))))
    silent.ends[0].recv(100)  # it has begun
    began = time.monotonic()
    silent.link.abort(flying.done)
    assert silent.finish(flying) == outcome
    assert time.monotonic() - began < STALL
    del flying  # and with it the wires that were under way
    silent.link.close()  # and with it one that was not
    # Nobody's memory is reached by what the peer says now.
    for end in silent.ends:
        end.settimeout(STALL)
        with pytest.raises(OSError, match=r"reset|pipe"):
            end.sendall(bytes(64 * MIB))
    assert here.all()


def test_a_deadline_of_who_helps_is_kept(silent: SilentBench) -> None:
    here = np.ones(4096, np.uint8)
    remote = silent.attach(silent.region(4096))
    done = _core.Done(silent.engines)
    batch = Batch.of(here, remote)
    d = _resolved(silent, batch)
    lent = silent.link.submit(_core.READ, d, done)
    assert lent is not None
    silent.link.help(lent, done, _core.now() + SECOND // 20)
    assert done.quiet
    assert done.outcome == _core.EXPIRED
    d.release()
    silent.link.release(lent, True)


def _resolved(bench: Bench, batch: Batch) -> _core.Descriptors:
    return resolve(_core.READ, batch, _core.SpanTable(), bench.table.spans, "the peer")


@pytest.mark.parametrize("op", [_core.WRITE, _core.READ])
def test_a_peer_that_leaves_in_the_midst_loses_the_transfer(silent: SilentBench, op: int) -> None:
    here = np.ones(4 * MIB, np.uint8)
    flying = silent.start(op, Batch.of(here, silent.attach(silent.region(4 * MIB))))
    silent.ends[0].recv(100)
    for end in silent.ends:
        end.close()
    assert silent.finish(flying) == _core.LOST
    assert here.all()


def test_a_silent_peer_holds_up_nobody_else(silent: SilentBench, bench: WireBench) -> None:
    """Of one driver: more transfers stand still than any pool of threads would have."""
    driver = TcpDriver(silent.published)
    submitters = Submitters(silent.engines, SlotPool(silent.runtime.stream), 1, 0)
    stuck = driver.open(silent.peer(), silent.path(SubmitterKind.HOST), submitters)
    free = driver.open(bench.peer(), bench.path(SubmitterKind.HOST), submitters)
    silent.link, bench.link = stuck, free
    batch = Batch.of(noise(1, 4096), silent.attach(silent.region(4096)))
    flying = [silent.start(_core.WRITE, batch) for _ in range(12)]
    region = bench.region(4096)
    bench.run(_core.WRITE, Batch.of(noise(2, 4096), bench.attach(region)))
    assert np.array_equal(contents(region), noise(2, 4096))
    for each in flying:
        stuck.abort(each.done)
    assert {silent.finish(each) for each in flying} <= {_core.LOST, _core.ABORTED}
    driver.close()


# ---- wires come and go ----


def test_a_failed_transfer_costs_its_wire_and_the_next_dials(bench: WireBench) -> None:
    region = bench.region(4096)
    batch = Batch.of(noise(3, 4096), bench.attach(region))
    bench.owner.dismiss(US)
    assert bench.finish(bench.start(_core.WRITE, batch)) == _core.LOST
    assert not contents(region).any()
    bench.run(_core.WRITE, batch)
    assert np.array_equal(contents(region), noise(3, 4096))


def test_dismissing_one_owner_leaves_the_others(bench: WireBench) -> None:
    ours, theirs = pair()
    bench.owner.serve(theirs, ANOTHER)
    bench.owner.dismiss(ANOTHER)
    bench.owner.dismiss(ANOTHER)
    with ours:
        assert ours.recv(1) == b""
    region = bench.region(4096)
    bench.run(_core.WRITE, Batch.of(noise(3, 4096), bench.attach(region)))


def test_a_wire_that_begins_while_its_owner_goes_ends_with_it() -> None:
    driver = TcpDriver(_core.SpanTable())
    events: list[tuple[str, int]] = []

    class Server:
        """Takes its time to begin, and meanwhile the owner goes."""

        def serve(self, fd: int, number: int, *visitor: int) -> int:
            going = threading.Thread(target=driver.dismiss, args=(US,))
            threads.append(going)
            going.start()
            going.join(0.1)
            os.close(fd)
            events.append(("began", number))
            return 0

        def dismiss(self, number: int) -> None:
            events.append(("ended", number))

    threads: list[threading.Thread] = []
    real, driver._server = driver._server, Server()  # type: ignore[assignment]
    ours, theirs = socket.socketpair()
    with ours:
        driver.serve(theirs, US)
    for thread in threads:
        thread.join()
    driver.dismiss(US)  # as whoever began it does when the owner is gone by then
    assert events == [("began", 1), ("ended", 1)]
    real.close()
    driver._wires.close()


def test_after_close_nobody_is_served(bench: WireBench) -> None:
    bench.owner.close()
    ours, theirs = pair()
    with ours:
        with pytest.raises(PeerError):
            bench.owner.serve(theirs, US)
        assert ours.recv(1) == b""


def test_a_large_batch_takes_several_wires(bench: WireBench) -> None:
    size = 24 * MIB
    region = bench.region(size)
    batch = Batch.of(noise(5, size), bench.attach(region))
    flying = bench.start(_core.WRITE, batch)
    assert flying.lent is not None
    assert len(flying.lent) == 3
    assert bench.finish(flying) == _core.OK
    assert np.array_equal(contents(region), noise(5, size))


def test_the_target_takes_no_part(bench: WireBench) -> None:
    """Its interpreter may compute as long as it likes: this one does until all is over."""
    region = bench.region(MIB)
    batch = Batch.of(noise(6, MIB), bench.attach(region))
    flying = bench.start(_core.WRITE, batch)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(PATIENCE / SECOND)  # nobody else gets the GIL
    try:
        until = _core.now() + PATIENCE
        while not flying.done.quiet and _core.now() < until:
            pass
    finally:
        sys.setswitchinterval(interval)
    assert bench.finish(flying) == _core.OK
    assert np.array_equal(contents(region), noise(6, MIB))


@pytest.mark.parametrize(
    "error",
    [PeerError("no route", cause="x"), Timeout("no route", cause="x"), OSError("no route")],
    ids=lambda error: type(error).__name__,
)
def test_a_path_that_cannot_be_dialled_is_refused(error: Exception) -> None:
    def wire(deadline: int | None) -> socket.socket:
        raise error

    engines = _core.CopyEngines(1)
    driver = TcpDriver(_core.SpanTable())
    peer = Peer("the peer", Facts(EPOCH, "boot", 1, LISTENING), None, None, wire)
    submitters = Submitters(engines, SlotPool(HostRuntime(engines).stream), 1, 0)
    with pytest.raises(PathRefused, match="no route"):
        driver.open(peer, Path(LinkKind.TCP, SubmitterKind.HOST), submitters)
    driver.close()


# ---- facts ----


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        (LISTENING, None),
        ({"loopback": {}}, "does not offer"),
        ({"tcp": {}}, "no tcp address"),
    ],
)
def test_who_can_use_it(links: dict[str, dict[str, int | str]], reason: str | None) -> None:
    ours = Facts(1, "boot", 1, {"tcp": {}})
    refused = TcpDriver.refuse(ours, Facts(2, "other", 2, links))
    assert refused is None if reason is None else refused is not None and reason in refused


def test_a_driver_tells_its_first_tcp_address() -> None:
    driver = TcpDriver(_core.SpanTable())
    assert driver.facts() == {}
    driver.addresses = ["unix:///run/x", "127.0.0.1:7000", "[::1]:7001"]
    assert driver.facts() == {"address": "127.0.0.1:7000"}


def test_descriptors_are_not_wanted(bench: WireBench) -> None:
    published = FabricDriver(bench.runtime).publish(bench.region(4096), bench.facts)
    assert published is not None
    with pytest.raises(UsageError):
        bench.link.attach(published)


def test_a_link_without_wires_serves_nobody() -> None:
    ours, theirs = pair()
    with ours, pytest.raises(PeerError, match="not served"):
        FabricDriver(HostRuntime()).serve(theirs, US)
    assert theirs.fileno() == -1
