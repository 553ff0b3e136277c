"""What every link must do, as test classes: subclass one and say how its driver is made.

class TestFabric(HandleLinkContract):
    @staticmethod
    def make_driver(bench):
        return FabricDriver(bench.runtime)
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from .. import _core
from ..batch import Batch
from ..errors import Error, RightsError
from ..link import Driver, Facts, Link, Peer, Published
from ..memory import Region, RegionTable, RemoteRegion, resolve
from ..path import Path, SubmitterKind
from ..runtime import Access, HostRuntime
from ..submit import Slot, SlotPool, Submitters

__all__ = ["Bench", "HandleLinkContract", "LinkContract"]

MIB = 1 << 20
EPOCH = 7
SECOND = 1_000_000_000
PATIENCE = 20 * SECOND

Bytes = npt.NDArray[np.uint8]


class Flying(NamedTuple):
    """One transfer under way. Its batch keeps the local memory, as a Transfer's does."""

    batch: Batch
    d: _core.Descriptors
    done: _core.Done
    lent: Slot | None


class Bench:
    """A link and an owner of regions, both in this process, with copy engines between them.

    published  the owner's regions by address: what its driver may serve
    """

    def __init__(self, make_driver: Callable[[Bench], Driver], submitter: SubmitterKind) -> None:
        self.engines = _core.CopyEngines(2)
        self.runtime = HostRuntime(self.engines, threads=1)
        self.published = _core.SpanTable()
        self.owner = make_driver(self)
        self.driver = make_driver(self)
        self.link = self._open(submitter)
        self.table: RegionTable[RemoteRegion] = RegionTable()
        self._local = _core.SpanTable()
        self._regions: list[Region] = []

    def _open(self, submitter: SubmitterKind) -> Link:
        slots = SlotPool(self.runtime.stream)
        submitters = Submitters(self.engines, slots, streams=3, inline_below=0)
        return self.driver.open(self.peer(), self.path(submitter), submitters)

    def path(self, submitter: SubmitterKind) -> Path:
        return Path(self.driver.kind, submitter)

    def peer(self) -> Peer:
        return Peer("the peer", self.facts, os.getpid(), None, self.wire)

    @property
    def facts(self) -> Facts:
        """What both ends tell of themselves."""
        return Facts(EPOCH, "boot", 1, {self.owner.kind.value: self.owner.facts()})

    def wire(self, deadline: int | None = None) -> socket.socket:
        raise AssertionError("this link dials nothing")

    def region(self, size: int, shared: Access = Access.WRITE) -> Region:
        """A region of the owner."""
        runtime = self.runtime
        with ExitStack() as undo:
            allocation = undo.enter_context(runtime.allocate(size))
            reservation = undo.enter_context(runtime.reserve(allocation.size))
            mapping = undo.enter_context(runtime.map(allocation, reservation, Access.WRITE))
            undo.pop_all()
        number = len(self._regions) + 1
        region = Region(number, f"region {number}", mapping, size, allocation, shared)
        self._regions.append(region)
        self.published.add(region.span)
        return region

    def publish(self, region: Region) -> Published:
        published = self.owner.publish(region, self.facts)
        assert published is not None
        return published

    def attach(self, region: Region) -> RemoteRegion:
        remote = self.link.attach(self.publish(region))
        self.table.add(remote)
        return remote

    def start(self, op: int, batch: Batch, done: _core.Done | None = None) -> Flying:
        done = done or _core.Done(self.engines)
        d = resolve(op, batch, self._local, self.table.spans, "the peer")
        lent = self.link.submit(op, d, done)
        self.link.wake()
        return Flying(batch, d, done, lent)

    def finish(self, flying: Flying) -> int:
        """Wait for quiet and give everything back; the outcome."""
        assert flying.done.wait(_core.now() + PATIENCE), "never quiet"
        outcome = flying.done.outcome
        flying.d.release()
        if flying.lent is not None:
            self.link.release(flying.lent, outcome != _core.OK)
        return outcome

    def run(self, op: int, batch: Batch) -> None:
        assert self.finish(self.start(op, batch)) == _core.OK

    def close(self) -> None:
        for remote in list(self.table.values()):
            self.table.remove(remote)
            self.link.detach(remote)
        self.link.close()
        self.driver.close()
        self.owner.close()
        self.engines.stop()
        for region in self._regions:
            region.free()


def contents(region: Region) -> Bytes:
    """A copy: of what the processor sees, even after the region has ended."""
    seen = region if region.reach is None else region.load()
    return np.array(np.frombuffer(seen, np.uint8))


def fill(region: Region, values: Bytes) -> None:
    region.store(values)


def noise(seed: int, size: int) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


class LinkContract:
    """`make_driver(bench)` makes the link's driver, of its owner's side and of ours.

    submitters  that the link may have
    make_bench  what it is tested on, where plain Bench does not serve
    """

    make_driver: Callable[[Bench], Driver]
    submitters: Sequence[SubmitterKind] = tuple(SubmitterKind)
    make_bench: type[Bench] = Bench

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "bench" in metafunc.fixturenames:
            metafunc.parametrize(
                "bench", self.submitters, indirect=True, ids=lambda each: each.value
            )

    @pytest.fixture
    def bench(self, request: pytest.FixtureRequest) -> Iterator[Bench]:
        bench = self.make_bench(type(self).make_driver, request.param)
        yield bench
        bench.close()

    @pytest.mark.parametrize("block", [1, 24, 4096, 12288, 65536])
    def test_scattered_blocks_arrive_and_come_back(self, bench: Bench, block: int) -> None:
        count = min(64, 2 * MIB // block)
        region = bench.region(count * block + 100)
        there = noise(1, region.length)
        fill(region, there)
        remote = bench.attach(region)
        random = np.random.default_rng(block)
        ours, theirs = random.permutation(count)[: count // 2], random.permutation(count)[::2]
        here = noise(2, count * block)
        bench.run(_core.WRITE, Batch.blocks(here, ours, remote, theirs, block))
        expected = there.copy()
        blocks = expected[: count * block].reshape(count, block)
        blocks[theirs] = here.reshape(count, block)[ours]
        assert np.array_equal(contents(region), expected)
        back, back_ids = noise(3, count * block), random.permutation(count)
        bench.run(_core.READ, Batch.blocks(back, back_ids, remote, np.arange(count), block))
        assert np.array_equal(back.reshape(count, block)[back_ids], blocks)

    def test_pieces_of_all_lengths_arrive(self, bench: Bench) -> None:
        """In which order is not promised."""
        lengths = np.random.default_rng(4).permutation(np.r_[1:600, 30_000, MIB + 3])
        starts = np.cumsum(lengths) - lengths
        order = np.random.default_rng(5).permutation(len(lengths))
        region = bench.region(int(lengths.sum()))
        remote = bench.attach(region)
        here = noise(6, region.length)
        bench.run(
            _core.WRITE,
            Batch.of(
                here,
                remote,
                local_offset=starts[order],
                remote_offset=starts[order],
                length=lengths[order],
            ),
        )
        assert np.array_equal(contents(region), here)

    def test_who_waits_may_help(self, bench: Bench) -> None:
        region = bench.region(3 * MIB)
        batch = Batch.of(noise(11, 3 * MIB), bench.attach(region))
        for _ in range(20):
            fill(region, np.zeros(3 * MIB, np.uint8))
            flying = bench.start(_core.WRITE, batch)
            if flying.lent is not None:
                bench.link.help(flying.lent, flying.done, None)
            assert bench.finish(flying) == _core.OK
            assert np.array_equal(contents(region), noise(11, 3 * MIB))

    def test_several_regions_in_one_batch(self, bench: Bench) -> None:
        regions = [bench.region(8192) for _ in range(3)]
        for region in regions:
            bench.attach(region)
        ours = bench.region(3 * 8192)
        bench._local.add(ours.span)
        fill(ours, noise(7, 3 * 8192))
        here = [ours.address + i * 8192 for i in range(3)]
        there = [region.address for region in regions]
        bench.run(_core.WRITE, Batch.absolute(here, there, 8192))
        assert np.array_equal(np.concatenate([*map(contents, regions)]), contents(ours))
        bench._local.discard(ours.span)

    def test_an_empty_batch_is_over_at_once(self, bench: Bench) -> None:
        region = bench.region(4096)
        before = contents(region)
        batch = Batch.blocks(bytearray(8), [], bench.attach(region), [], 8)
        flying = bench.start(_core.WRITE, batch)
        assert bench.finish(flying) == _core.OK
        assert flying.done.stream_submissions == 0
        assert np.array_equal(contents(region), before)

    def test_what_is_over_stays_over(self, bench: Bench) -> None:
        remote = bench.attach(bench.region(MIB))
        flying = bench.start(_core.READ, Batch.of(bytearray(MIB), remote))
        assert bench.finish(flying) == _core.OK
        first = flying.done.elapsed_ns
        bench.run(_core.READ, Batch.of(bytearray(MIB), remote))
        assert flying.done.quiet
        assert (flying.done.outcome, flying.done.elapsed_ns) == (_core.OK, first)

    def test_aborted_before_it_begins_nothing_moves(self, bench: Bench) -> None:
        region = bench.region(2 * MIB)
        remote = bench.attach(region)
        done = _core.Done(bench.engines)
        bench.link.abort(done)
        batch = Batch.of(noise(8, 2 * MIB), remote)
        assert bench.finish(bench.start(_core.WRITE, batch, done)) == _core.ABORTED
        assert not contents(region).any()

    def test_aborted_under_way_it_becomes_quiet(self, bench: Bench) -> None:
        size = 8 * MIB
        region = bench.region(size)
        here = np.ones(size, np.uint8)
        batch = Batch.of(here, bench.attach(region))
        done = _core.Done(bench.engines)
        aborter = threading.Thread(target=bench.link.abort, args=(done,))
        aborter.start()
        flying = bench.start(_core.WRITE, batch, done)
        outcome = bench.finish(flying)
        aborter.join()
        after = contents(region)
        # Quiet: what the source becomes now does not get there any more.
        here[:] = 2
        assert after.max() <= 1
        assert outcome in (_core.OK, _core.ABORTED)
        assert outcome == _core.ABORTED or after.all()
        bench.run(_core.WRITE, batch)
        assert (contents(region) == 2).all()

    def test_read_only_memory_is_never_written(self, bench: Bench) -> None:
        region = bench.region(4096, Access.READ)
        values = noise(9, 4096)
        fill(region, values)
        remote = bench.attach(region)
        assert remote.readonly
        batch = Batch.of(bytearray(4096), remote)
        with pytest.raises(RightsError) as caught:
            bench.start(_core.WRITE, batch)
        assert (caught.value.cause, remote.span.inside) == ("read_only", 0)
        assert np.array_equal(contents(region), values)
        back = np.zeros(4096, np.uint8)
        bench.run(_core.READ, Batch.of(back, remote))
        assert np.array_equal(back, values)

    def test_attached_twice_and_detached_twice(self, bench: Bench) -> None:
        region = bench.region(4096)
        first = bench.link.attach(bench.publish(region))
        second = bench.attach(region)
        for _ in range(2):
            bench.link.detach(first)
        bench.run(_core.WRITE, Batch.of(noise(10, 4096), second))
        assert np.array_equal(contents(region), noise(10, 4096))

    def test_a_remote_region_says_what_it_is(self, bench: Bench) -> None:
        region = bench.region(5000)
        remote = bench.attach(region)
        assert (remote.name, remote.address, remote.length) == (region.name, region.address, 5000)
        assert (remote.peer, remote.epoch, remote.readonly) == ("the peer", EPOCH, False)
        assert remote.record.serial == region.serial

    def test_many_threads_at_once(self, bench: Bench) -> None:
        threads, share, block = 6, 64, 4096
        region = bench.region(threads * share * block)
        remote = bench.attach(region)
        failures: list[BaseException] = []

        def work(index: int) -> None:
            try:
                random = np.random.default_rng(index)
                theirs = index * share + np.arange(share)
                for _ in range(15):
                    here = random.integers(0, 256, (share, block), np.uint8)
                    ids = random.permutation(share)
                    bench.run(_core.WRITE, Batch.blocks(here, ids, remote, theirs, block))
                    back = np.zeros_like(here)
                    bench.run(_core.READ, Batch.blocks(back, ids, remote, theirs, block))
                    assert np.array_equal(back, here)
            except BaseException as error:
                failures.append(error)

        crew = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        assert not failures
        assert remote.span.inside == 0


def _not_memory(published: Published) -> Published:
    left, right = socket.socketpair()
    right.close()
    return published._replace(fds=[left.detach()])


def _unsealed(published: Published) -> Published:
    fd = os.memfd_create("kvferry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, published.record.size)
    return published._replace(fds=[fd])


def _claiming(**claims: Any) -> Callable[[Published], Published]:
    def change(published: Published) -> Published:
        record = msgspec.structs.replace(published.record, **claims)
        return Published(record, [os.dup(fd) for fd in published.fds])

    return change


def _twice(published: Published) -> Published:
    return published._replace(fds=[os.dup(fd) for fd in published.fds * 2])


# What a peer must not get away with.
FORGERIES: dict[str, Callable[[Published], Published]] = {
    "no memory file": _not_memory,
    "not sealed": _unsealed,
    "no descriptor": lambda published: published._replace(fds=[]),
    "two descriptors": _twice,
    "more than the file has": _claiming(size=1 << 30),
    "no whole pages": _claiming(size=4097),
    "no size": _claiming(size=0),
    "negative size": _claiming(size=-4096),
    "other pages": _claiming(page=3),
    "longer than the handle": _claiming(length=8193),
    "no length": _claiming(length=0),
    "negative length": _claiming(length=-1),
    "negative base": _claiming(base=-4096),
    "base beyond the address space": _claiming(base=1 << 64),
    "wraps around": _claiming(base=(1 << 64) - 4096),
    "readable as it is writable": _claiming(readonly=True),
    "another kind of handle": _claiming(handle="address"),
}


class HandleLinkContract(LinkContract):
    """For links whose regions travel as descriptors of memory files."""

    @pytest.mark.parametrize("forgery", FORGERIES)
    def test_a_forged_region_is_refused_and_its_descriptors_closed(
        self, bench: Bench, forgery: str
    ) -> None:
        good = bench.publish(bench.region(8192))
        bad = FORGERIES[forgery](good)
        try:
            with pytest.raises(Error):
                bench.link.attach(bad)
            for fd in bad.fds:
                with pytest.raises(OSError, match="Bad file descriptor"):
                    os.fstat(fd)
        finally:
            good.discard()

    def test_the_descriptor_is_taken_over(self, bench: Bench) -> None:
        published = bench.publish(bench.region(8192))
        (fd,) = published.fds
        remote = bench.link.attach(published)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        bench.link.detach(remote)
