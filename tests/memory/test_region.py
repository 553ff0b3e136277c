"""Own and foreign regions, and how long their memory stays."""

from __future__ import annotations

import gc
import mmap
import weakref
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from kvferry.batch import buffer_of
from kvferry.memory import Region
from kvferry.runtime import Access, HostRuntime


def own(size: int, shared: Access = Access.WRITE) -> Region:
    runtime = HostRuntime(threads=1)
    with ExitStack() as undo:
        allocation = undo.enter_context(runtime.allocate(size))
        reservation = undo.enter_context(runtime.reserve(allocation.size))
        mapping = undo.enter_context(runtime.map(allocation, reservation, Access.WRITE))
        undo.pop_all()
    return Region(1, "pool", mapping, size, allocation, shared)


def mapped(address: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(end, 16) for end in line.split()[0].split("-"))
        if low <= address < high:
            return "memfd:kvferry" in line
    return False


def test_an_own_region_is_a_buffer_of_its_length() -> None:
    region = own(5000)
    with memoryview(region) as view:
        assert (view.nbytes, view.readonly, view.format) == (5000, False, "B")
        view[:4] = b"abcd"
    assert np.frombuffer(region, np.uint8, 4).tobytes() == b"abcd"
    assert region.own
    assert region.grant is not None
    assert (region.grant.asked, region.grant.granted) == (5000, 8192)
    span = region.span
    assert (span.base, span.length, span.here) == (region.address, 5000, region.address)
    assert repr(region) == f"<own Region 'pool', 5000 bytes at {region.address:#x}>"
    region.free()


def test_memory_stays_until_the_last_export() -> None:
    region = own(mmap.PAGESIZE)
    array = np.frombuffer(region, np.uint8)
    part = array[10:20]
    array[:] = 3
    address = region.address
    region.free()
    region.free()
    del region, array
    gc.collect()
    assert (part == 3).all()
    assert mapped(address)
    del part
    gc.collect()
    assert not mapped(address)


def test_a_freed_region_hands_out_no_buffers() -> None:
    region = own(mmap.PAGESIZE)
    address = region.address
    region.free()
    assert not mapped(address)
    with pytest.raises(BufferError):
        memoryview(region)


def test_a_foreign_region_keeps_the_buffer() -> None:
    class Owned(np.ndarray):
        pass

    memory = np.arange(16, dtype=np.uint8).view(Owned)
    gone, address = weakref.ref(memory), memory.ctypes.data
    region = Region(1, "foreign", buffer_of(memory), 16)
    del memory
    gc.collect()
    assert gone() is not None
    assert (region.own, region.grant, region.address) == (False, None, address)
    assert bytes(memoryview(region)) == bytes(range(16))
    region.free()
    del region
    gc.collect()
    assert gone() is None


def test_a_foreign_region_is_as_writable_as_its_buffer() -> None:
    region = Region(1, "frozen", buffer_of(b"0123"), 4)
    assert memoryview(region).readonly
    assert repr(region).startswith("<foreign Region 'frozen', 4 bytes at 0x")
    assert not memoryview(Region(2, "open", buffer_of(bytearray(4)), 4)).readonly


def test_what_is_shared_says_nothing_of_the_owner() -> None:
    region = own(mmap.PAGESIZE, Access.READ)
    assert region.shared is Access.READ
    np.frombuffer(region, np.uint8)[:] = 1
    region.free()
