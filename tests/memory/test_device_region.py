"""Copies into and out of regions: the same for memory of the host and of a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from kvferry import _core
from kvferry.batch import Batch, buffer_of
from kvferry.errors import ClosedError, DeviceError, RightsError, UsageError
from kvferry.memory import Region
from tests.link.devices import CODE, Device
from tests.memory.test_region import own

SIZE = 8192


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture(params=["host", "device"])
def region(request: pytest.FixtureRequest, device: Device) -> Iterator[Region]:
    region = own(SIZE) if request.param == "host" else device.region(1, SIZE)
    yield region
    region.free()


def test_what_is_stored_is_loaded(region: Region) -> None:
    values = np.random.default_rng(1).integers(0, 1 << 16, SIZE // 2, np.uint16)
    region.store(values)
    assert region.load() == values.tobytes()
    region.store(b"abc", offset=5)
    region.store(memoryview(b"xyz"), SIZE - 3)
    assert region.load(5, 4) == values.tobytes()[4:5] + b"abc" + values.tobytes()[8:9]
    assert region.load(offset=SIZE - 3) == b"xyz"
    out = np.zeros((2, 3), np.uint8)
    region.load_into(out, offset=5)
    assert out.tobytes() == b"abc" + values.tobytes()[8:11]
    assert region.load(0, SIZE) == region.load(0) == b""


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda it: it.load(1, SIZE), (SIZE, 1)),
        (lambda it: it.load(SIZE + 1), (0, SIZE + 1)),
        (lambda it: it.load(1, -1), (-1, 1)),
        (lambda it: it.load(-1), (0, -1)),
        (lambda it: it.load(offset=SIZE + 1), (SIZE + 1, -1)),
        (lambda it: it.load_into(bytearray(2), SIZE - 1), (SIZE - 1, 2)),
        (lambda it: it.store(b"12", SIZE - 1), (SIZE - 1, 2)),
        (lambda it: it.store(b"12", 1 << 64), (1 << 64, 2)),
    ],
)
def test_what_is_outside_is_refused(
    region: Region, call: Callable[[Region], object], wrong: tuple[int, int]
) -> None:
    with pytest.raises(UsageError, match="outside region") as caught:
        call(region)
    assert caught.value.cause == "out_of_bounds"
    assert caught.value.range == (region.address + wrong[0], wrong[1])
    assert not any(region.load())


def test_what_may_not_be_written_is_not(region: Region) -> None:
    with pytest.raises(RightsError):
        region.load_into(b"1234")
    frozen = Region(9, "frozen", buffer_of(b"0123"), 4)
    assert frozen.load() == b"0123"
    with pytest.raises(RightsError, match="'frozen'") as caught:
        frozen.store(b"x")
    assert caught.value.cause == "read_only"


def test_an_unregistered_region_copies_nothing(region: Region) -> None:
    region.span.close()
    for call in (region.load, lambda: region.store(b"x")):
        with pytest.raises(ClosedError):
            call()
    assert region.span.inside == 0


def test_device_memory_hands_out_no_buffers(device: Device) -> None:
    region = device.region(1, SIZE)
    for ask in (memoryview, bytes, lambda it: np.frombuffer(it, np.uint8), buffer_of):
        with pytest.raises(BufferError, match=r"device memory.*load, load_into and store"):
            ask(region)
    assert (region.exports, region.reach, region.span.reach) == (0, device.reach, device.reach)
    region.free()


def test_a_mapping_hands_out_none_either(device: Device) -> None:
    region = device.region(1, SIZE)
    mapping = region._mapping
    assert mapping is not None
    with pytest.raises(BufferError, match="device memory"):
        memoryview(mapping.view)
    region.free()


def test_a_device_that_fails_says_what_its_library_said(device: Device) -> None:
    region = device.region(1, SIZE)
    for call in (region.load, lambda: region.store(b"x")):
        device.fail_at(1)
        with pytest.raises(DeviceError, match=str(CODE)) as caught:
            call()
        assert (caught.value.cause, caught.value.code) == ("acl", CODE)
    assert region.span.inside == 0
    region.free()


def test_unregistering_waits_for_a_copy(device: Device) -> None:
    region = device.region(1, SIZE)
    entered, leave = threading.Event(), threading.Event()
    real = device._real

    def slow(address: int, length: int) -> int:
        entered.set()
        leave.wait(20)
        return real(address, length)

    device._real = slow  # type: ignore[method-assign]
    copying = threading.Thread(target=region.load)
    copying.start()
    assert entered.wait(20)
    region.span.close()
    assert not region.span.drain(_core.now() + 1_000_000)
    leave.set()
    assert region.span.drain(_core.now() + 20_000_000_000)
    copying.join()
    region.free()


# ---- batches ----


def test_batches_name_device_memory_without_a_buffer(device: Device) -> None:
    ours, theirs = device.region(1, SIZE), device.region(2, SIZE)
    batches = [
        Batch.blocks(ours, [1], theirs, [0], 4096),
        Batch.of(ours, theirs, local_offset=4096, length=4096),
        Batch.strided(ours, theirs, 4096, 1, 4096, 4096, local_offset=4096),
    ]
    rows = {batch.descriptors.row(0) for batch in batches}
    assert rows == {(ours.address + 4096, theirs.address, 4096)}
    assert all(batch.local is ours.span and batch.local_held is None for batch in batches)
    ours.free()
    theirs.free()


def test_descriptors_say_whether_the_local_side_is_opaque(device: Device) -> None:
    host, ours = own(SIZE), device.region(1, SIZE)
    remote = _core.Span(1 << 20, 1 << 20, 1 << 30, True)
    local, theirs = _core.SpanTable(), _core.SpanTable()
    local.add(host.span)
    theirs.add(remote)

    def resolve(
        *addresses: int, span: _core.Span | None = None, late: int = 0
    ) -> _core.Descriptors:
        rows = np.array([[a, (1 << 20) + i * 4096, 4096] for i, a in enumerate(addresses)])
        d = _core.Descriptors(rows.astype(np.uint64))
        table = None if not addresses[0] else local
        return _core.resolve(True, d, span, table, remote, theirs, late)

    assert resolve(host.address + 100, host.address, late=1).verdict == _core.RESOLVED
    local.add(ours.span)
    both = resolve(host.address, ours.address + 1)
    assert both.opaque
    assert all(run.opaque for run in both.cut(2))
    assert resolve(ours.address, span=ours.span).opaque
    assert not resolve(host.address, span=host.span).opaque
    assert not resolve(host.address, host.address + 4096).opaque
    late = resolve(host.address + 4096, ours.address, host.address, late=1)
    assert (late.verdict, late.opaque, late.late) == (_core.RESOLVED, True, False)
    assert not resolve(0).opaque  # a caller's own buffer
    for region in (host, ours):
        local.discard(region.span)
    del both, late
    host.free()
    ours.free()
