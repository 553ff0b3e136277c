"""Memory of a device over tcp and cma: staged where a link can, else refused before it moves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from kvferry import _core
from kvferry.batch import Batch
from kvferry.errors import PathRefused, UsageError
from kvferry.link import CmaDriver, Driver, FabricDriver, Link, LoopbackDriver, TcpDriver
from kvferry.memory import Region
from kvferry.path import LinkKind, Path, Staging, SubmitterKind
from kvferry.submit import PoolSpec, SlotPool, Submitters
from kvferry.testing.link_contract import EPOCH, Bench, contents, fill, noise
from tests.link.devices import CODE, Device
from tests.link.test_tcp import WireBench

BLOCK, COUNT = 300_000, 8  # long enough that a region of the host is not staged
SIZE = BLOCK * COUNT
OPS = pytest.mark.parametrize("op", [_core.WRITE, _core.READ], ids=["write", "read"])


class DeviceBench(WireBench):
    """Both ends have memory in a device of their own."""

    def __init__(self, kind: LinkKind, submitter: SubmitterKind, staging: Staging) -> None:
        self.near, self.far = Device(), Device()
        self._kind, self._staging = kind, staging
        super().__init__(lambda bench: self._driver(bench), submitter)

    def _driver(self, bench: Bench) -> Driver:
        if self._kind is LinkKind.TCP:
            return TcpDriver(bench.published, self.near.spans)
        if self._kind is LinkKind.CMA:
            return CmaDriver(EPOCH, False, self.near.spans)
        return LoopbackDriver() if self._kind is LinkKind.LOOPBACK else FabricDriver(bench.runtime)

    def path(self, submitter: SubmitterKind) -> Path:
        return Path(self._kind, submitter, self._staging)

    def _open(self, submitter: SubmitterKind) -> Link:
        slots, pool = SlotPool(self.runtime.stream), PoolSpec(2, 500_000)
        submitters = Submitters(self.engines, slots, streams=3, inline_below=0, pool=pool)
        return self.driver.open(self.peer(), self.path(submitter), submitters)

    def local(self, device: bool, size: int = SIZE) -> Region:
        region = self._made(self.near, 50, size) if device else self.region(size)
        self.published.discard(region.span)
        self._local.add(region.span)
        return region

    def remote(self, device: bool, size: int = SIZE) -> Region:
        return self._made(self.far, 60, size) if device else self.region(size)

    def _made(self, device: Device, serial: int, size: int) -> Region:
        region = device.region(serial, size)
        self._regions.append(region)
        self.published.add(region.span)
        return region

    def close(self) -> None:
        super().close()
        assert all(region.span.inside == 0 for region in self._regions)


class TcpBench(DeviceBench):
    def __init__(self, staging: Staging = Staging.BOUNCE) -> None:
        super().__init__(LinkKind.TCP, SubmitterKind.HOST, staging)


class CmaBench(DeviceBench):
    def __init__(self, submitter: SubmitterKind, staging: Staging = Staging.BOUNCE) -> None:
        super().__init__(LinkKind.CMA, submitter, staging)


@pytest.fixture
def tcp() -> Iterator[TcpBench]:
    bench = TcpBench()
    yield bench
    bench.close()


@pytest.fixture(params=SubmitterKind, ids=lambda each: each.value)
def cma(request: pytest.FixtureRequest) -> Iterator[CmaBench]:
    bench = CmaBench(request.param)
    yield bench
    bench.close()


Bytes = npt.NDArray[np.uint8]


def put(region: Region, values: Bytes) -> None:
    if region.reach is None:
        fill(region, values)
    else:
        region.store(values)


def got(region: Region) -> Bytes:
    return np.frombuffer(region.load(), np.uint8)


def cross(bench: DeviceBench, op: int, ours: Region, theirs: Region, block: int) -> int:
    """Move blocks in any order, compare all of both sides; how many bytes were staged."""
    count = ours.length // block
    order = np.random.default_rng(7).permutation(count)
    here, there = noise(1, ours.length), noise(2, ours.length)
    put(ours, here)
    put(theirs, there)
    batch = Batch.blocks(ours, np.arange(count), bench.table[theirs.name], order, block)
    flying = bench.start(op, batch)
    assert bench.finish(flying) == _core.OK
    near, far = here.reshape(count, block), there.reshape(count, block)
    if op == _core.WRITE:
        far[order] = near
    else:
        near[:] = far[order]
    assert np.array_equal(got(ours), here)
    assert np.array_equal(got(theirs), there)
    return flying.done.staged


# ---- tcp: all eight directions ----


@OPS
@pytest.mark.parametrize("remote", [False, True], ids=["remote-host", "remote-device"])
@pytest.mark.parametrize("local", [False, True], ids=["local-host", "local-device"])
def test_every_direction_over_tcp(tcp: TcpBench, local: bool, remote: bool, op: int) -> None:
    ours, theirs = tcp.local(local), tcp.remote(remote)
    tcp.attach(theirs)
    assert cross(tcp, op, ours, theirs, BLOCK) == SIZE * (local + remote)
    # Short pieces of a region of the host are staged as well.
    assert cross(tcp, op, ours, theirs, BLOCK // 100) == SIZE * (1 + remote)


@OPS
def test_a_device_of_the_peer_is_reached_without_a_pool(op: int) -> None:
    bench = TcpBench(Staging.NONE)
    ours, theirs = bench.local(False), bench.remote(True)
    bench.attach(theirs)
    assert cross(bench, op, ours, theirs, BLOCK) == SIZE
    bench.close()


@OPS
def test_host_and_device_in_one_batch(tcp: TcpBench, op: int) -> None:
    ours = [tcp.local(False), tcp.local(True)]
    theirs = [tcp.remote(True), tcp.remote(False)]
    for region in (*ours, *theirs):
        put(region, noise(region.serial, SIZE))
    for region in theirs:
        tcp.attach(region)
    source, target = (ours, theirs) if op == _core.WRITE else (theirs, ours)
    expected = [got(region) for region in source]
    near, far = ([region.address for region in side] for side in (ours, theirs))
    flying = tcp.start(op, Batch.absolute(near, far, SIZE))
    assert tcp.finish(flying) == _core.OK
    assert all(np.array_equal(got(t), e) for t, e in zip(target, expected, strict=True))
    assert flying.done.staged == 2 * SIZE


def test_a_record_says_where_the_memory_is(tcp: TcpBench) -> None:
    kinds = [tcp.publish(tcp.remote(device)).record.kind for device in (False, True)]
    assert kinds == ["host", "device"]


# ---- cma: the local side only ----


@OPS
def test_local_device_memory_over_cma(cma: CmaBench, op: int) -> None:
    theirs = cma.remote(False)
    cma.attach(theirs)
    assert cross(cma, op, cma.local(True), theirs, BLOCK) == SIZE
    assert cross(cma, op, cma.local(False), theirs, BLOCK // 100) == 0
    back = np.zeros(SIZE, np.uint8)
    cma.run(_core.READ, Batch.of(back, cma.table[theirs.name]))
    assert np.array_equal(back, contents(theirs))


def test_a_device_of_the_peer_is_not_reached_over_cma_nor_its_own() -> None:
    device = Device()
    for driver in (CmaDriver(EPOCH, False), LoopbackDriver()):
        region = device.region(1, 4096)
        bench = DeviceBench(driver.kind, SubmitterKind.INLINE, Staging.NONE)
        assert driver.publish(region, bench.facts) is None
        bench.close()
        region.free()


@pytest.mark.parametrize(
    ("spans", "pool", "reason"),
    [
        (None, PoolSpec(), "any memory of the host: nothing to stage"),
        (_core.SpanTable(), PoolSpec(0, 0), "its pool is off"),
    ],
)
def test_who_may_not_stage_over_cma(
    spans: _core.SpanTable | None, pool: PoolSpec, reason: str
) -> None:
    bench = CmaBench(SubmitterKind.INLINE, Staging.NONE)
    submitters = Submitters(bench.engines, SlotPool(bench.runtime.stream), 1, 0, pool)
    path = Path(LinkKind.CMA, SubmitterKind.INLINE, Staging.BOUNCE)
    with pytest.raises(PathRefused, match=reason) as caught:
        CmaDriver(EPOCH, False, spans).open(bench.peer(), path, submitters)
    assert list(caught.value.rejected) == ["cma/inline/bounce"]
    bench.close()


# ---- links that cannot ----


@OPS
@pytest.mark.parametrize(
    ("kind", "submitter"),
    [
        (LinkKind.LOOPBACK, SubmitterKind.INLINE),
        (LinkKind.FABRIC, SubmitterKind.INLINE),
        (LinkKind.FABRIC, SubmitterKind.COPROCESSOR),
        (LinkKind.CMA, SubmitterKind.HOST),
        (LinkKind.TCP, SubmitterKind.HOST),
    ],
    ids=lambda each: each.value,
)
def test_refused_before_a_byte_moves(kind: LinkKind, submitter: SubmitterKind, op: int) -> None:
    bench = DeviceBench(kind, submitter, Staging.NONE)
    own = bench.region(4096)
    ours, remote = bench.local(True, 4096), bench.attach(own)
    done = _core.Done(bench.engines)
    with pytest.raises(UsageError, match='connect with staging="bounce"') as caught:
        bench.start(op, Batch.of(ours, remote), done)
    assert (caught.value.cause, caught.value.peer) == ("device_memory", "the peer")
    assert f"{kind.value}/" in str(caught.value)
    assert (bench.near.copies, done.begun) == (0, False)
    assert not contents(own).any()
    del caught  # whose frames hold the regions
    done.forsake()
    bench.close()


def test_refused_where_the_driver_knows_of_no_device(tcp: TcpBench) -> None:
    driver = TcpDriver(tcp.published)
    slots, pool = SlotPool(tcp.runtime.stream), PoolSpec(1, 4096)
    submitters = Submitters(tcp.engines, slots, 1, 0, pool)
    link, tcp.link = tcp.link, driver.open(tcp.peer(), tcp.path(SubmitterKind.HOST), submitters)
    theirs = tcp.remote(False, 4096)
    with pytest.raises(UsageError, match="device"):
        tcp.start(_core.WRITE, Batch.of(tcp.local(True, 4096), tcp.attach(theirs)))
    link.close()
    tcp.link.close()
    driver.close()


# ---- a device that fails ----


def check_failure(
    bench: DeviceBench, device: Device, op: int, ours: Region, theirs: Region
) -> None:
    """At the first copy, and at a later one: failed and quiet, and the link goes on."""
    ids = np.arange(COUNT)
    batch = Batch.blocks(ours, ids, bench.attach(theirs), ids[::-1], BLOCK)
    for number in (1, 5):
        device.fail_at(number)
        flying = bench.start(op, batch)
        assert bench.finish(flying) == _core.DEVICE
        assert (flying.done.code, flying.done.quiet) == (CODE, True)
        copies = device.copies
        assert cross(bench, op, ours, theirs, BLOCK) >= SIZE
        assert device.copies > copies


@OPS
def test_a_device_here_that_fails(tcp: TcpBench, op: int) -> None:
    check_failure(tcp, tcp.near, op, tcp.local(True), tcp.remote(False))
    assert tcp.owner._server.wires == 1  # type: ignore[attr-defined]


@OPS
def test_a_device_there_that_fails(tcp: TcpBench, op: int) -> None:
    check_failure(tcp, tcp.far, op, tcp.local(False), tcp.remote(True))
    assert tcp.owner._server.wires == 1  # type: ignore[attr-defined]


@OPS
def test_a_device_that_fails_over_cma(cma: CmaBench, op: int) -> None:
    check_failure(cma, cma.near, op, cma.local(True), cma.remote(False))
