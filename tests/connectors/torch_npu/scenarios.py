"""What the allocator is put through on the software NPU, in one process.

Settings of the software NPU are read when it is initialised: each scenario does so anew.
"""

from __future__ import annotations

import ctypes
import os
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import byref, c_int32, c_void_p
from typing import Any

from kvferry.runtime import Access
from kvferry.runtime.cann.library import open_library
from kvferry.runtime.cann.runtime import CannRuntime
from kvferry.testing import Parent
from tests.connectors.torch_npu.allocator import NULL, Allocator
from tests.npu.acl import D2D, HUGE, LIBRARY, Acl, Refused

CONTEXTS = 5  # in the books


@contextmanager
def begun(**environ: str) -> Iterator[tuple[Acl, Allocator]]:
    """This thread is on device 0."""
    acl = Acl(**environ)
    acl("aclInit", None)
    acl("aclrtSetDevice", 0)
    try:
        yield acl, Allocator()
    finally:
        for number in range(4):
            with suppress(Refused):
                acl("aclrtResetDeviceForce", number)
        acl("aclFinalize")


def held(acl: Acl) -> list[int]:
    """The books, less contexts."""
    counts = acl.books()
    return counts[:CONTEXTS] + counts[CONTEXTS + 1 :]


def device(acl: Acl) -> int:
    """The one that is current in this thread."""
    current = c_int32()
    acl("aclrtGetDevice", byref(current))
    return current.value


def once(allocator: Allocator, number: int) -> None:
    allocator.free(allocator.malloc(1, number, NULL), 1, number, NULL)


def first_call() -> list[Any]:
    """ACL cannot be initialised, then it can."""
    acl, allocator = Acl(NPU_FAIL="aclInit=507899"), Allocator()
    told = [allocator.reason(), allocator.malloc(1, 0, NULL), allocator.reason()]
    del os.environ["NPU_FAIL"]
    once(allocator, 0)
    acl("aclrtResetDevice", 0)
    acl("aclFinalize")
    return [*told, acl.books()]


def blocks() -> list[Any]:
    """Several sizes and two devices at once, each written and read to its last byte."""
    sizes = {1: HUGE, HUGE: HUGE, HUGE + 1: 2 * HUGE, 5 * HUGE - 7: 5 * HUGE}
    unlike = []
    with begun() as (acl, _):
        allocator = Allocator("mc_allocator_")
        made = [(allocator.malloc(size, on, NULL), size, on) for size in sizes for on in (0, 1)]
        for number, (address, size, on) in enumerate(made):
            acl("aclrtSetDevice", on)
            acl.write(address, bytes([number + 1]) * sizes[size])
        for number, (address, size, on) in enumerate(made):
            acl("aclrtSetDevice", on)
            if acl.read(address, sizes[size]) != bytes([number + 1]) * sizes[size]:
                unlike.append([size, on])
            allocator.free(address, size, on, NULL)
    return [[address % HUGE for address, *_ in made], unlike, acl.books()]


def retain() -> list[Any]:
    """A runtime shares the block around an address in its middle, which is freed meanwhile."""
    with begun() as (acl, allocator):
        address = allocator.malloc(3 * HUGE - 5, 0, NULL)
        runtime = CannRuntime(open_library(str(LIBRARY)), 0)
        found = runtime.retain(address + HUGE)
        assert found is not None
        shared = runtime.export(found, Access.WRITE)
        allocator.free(address, 3 * HUGE, 0, NULL)
        kept = acl.books()[3]
        found.close()
        runtime.close()
        same = [found.address == address, found.size, shared.size]
    return [*same, shared.kind, kept, acl.books()]


def free_under_way() -> list[Any]:
    """What a task that was submitted and has not begun is to read."""
    with begun(NPU_DELAY="100") as (acl, allocator):
        source, target = (allocator.malloc(HUGE, 0, NULL) for _ in range(2))
        acl.write(source, b"\x07" * HUGE)
        stream = acl.made("aclrtCreateStream")
        to, size, of = c_void_p(target), ctypes.c_size_t(HUGE), c_void_p(source)
        acl("aclrtMemcpyAsync", to, size, of, size, D2D, c_void_p(stream))
        allocator.free(source, HUGE, 0, stream)
        arrived = acl.read(target, HUGE) == b"\x07" * HUGE
        acl("aclrtDestroyStream", c_void_p(stream))
        allocator.free(target, HUGE, 0, NULL)
    return [arrived, acl.books()]


def free_on_a_failed_stream() -> list[Any]:
    with begun() as (acl, allocator):
        address = allocator.malloc(1, 0, NULL)
        allocator.free(address, 1, 0, address)
        return [allocator.reason(), held(acl)]


def come_back() -> list[Any]:
    """Where a thread is after it allocated on another device: from a device, from a context of its
    own, and from nowhere."""
    found = []
    with begun() as (acl, allocator):
        own = acl.made("aclrtCreateContext", 2)
        acl("aclrtSetDevice", 0)
        once(allocator, 1)
        found += [allocator.probe(3), device(acl)]
        acl("aclrtSetCurrentContext", c_void_p(own))
        once(allocator, 1)
        found += [allocator.probe(3), acl.made("aclrtGetCurrentContext") == own]

        def from_nowhere() -> None:
            once(allocator, 1)
            found.append(device(acl))

        thread = threading.Thread(target=from_nowhere)
        thread.start()
        thread.join()
        acl("aclrtDestroyContext", c_void_p(own))
    return [*found, acl.books()]


def misuse() -> list[Any]:
    told = []
    with begun() as (acl, allocator):
        for size, number in [(2**64 - 1, 0), (65 << 30, 0), (1, 99), (1, -1)]:
            told.append([allocator.malloc(size, number, NULL), allocator.reason()])
        address = allocator.malloc(1, 0, NULL)
        for wrong in (address + HUGE, address + 1):
            allocator.free(wrong, 1, 0, NULL)
            told.append([held(acl)[1:4], allocator.reason().replace(f"{wrong:#x}", "it")])
        allocator.free(address, 1, 0, NULL)
        allocator.free(address, 1, 0, NULL)
        told.append([held(acl)[1:4], allocator.reason().replace(f"{address:#x}", "it")])
        once_more = allocator.reason()
        allocator.free(NULL, 0, 0, NULL)
        told.append([allocator.malloc(0, 0, NULL), allocator.reason() == once_more])
    return [*told, acl.books()]


def probes() -> list[Any]:
    with begun() as (acl, allocator):
        able = [allocator.probe(0), allocator.probe(1), allocator.probe(99)]
    with begun(NPU_HDK="25.5") as (acl, allocator):
        able.append(allocator.probe(0))
        reason = allocator.reason()
    return [able, reason, acl.books()]


# ---- failures of ACL: CALL:N, the Nth call of a function ----

# What an allocation on another device calls; the second aclrtSetDevice is its first.
TO_ALLOCATE = [
    "aclrtGetCurrentContext:1",
    "aclrtGetDevice:1",
    "aclrtSetDevice:2",
    "aclrtMemGetAllocationGranularity:1",
    "aclrtMallocPhysical:1",
    "aclrtReserveMemAddress:1",
    "aclrtMapMem:1",
    "aclrtSetCurrentContext:1",
]
# Both the call that fails and the undoing fail: the first is told.
TWICE = ["aclrtMapMem:1=507899,aclrtReleaseMemAddress:1"]
# What freeing it calls until it is unmapped.
TO_UNMAP = [
    "aclrtGetCurrentContext:2",
    "aclrtGetDevice:2",
    "aclrtSetDevice:3",
    "aclrtUnmapMem:1",
]
# And afterwards.
TO_RELEASE = ["aclrtFreePhysical:1", "aclrtReleaseMemAddress:1", "aclrtSetCurrentContext:2"]


@contextmanager
def failing(call: str) -> Iterator[tuple[Acl, Allocator]]:
    with begun(NPU_FAIL=f"{call}=507899") as both:
        yield both


def names(allocator: Allocator, call: str) -> bool:
    """Whether the reason it gives is this call."""
    name = call.partition(":")[0]
    return allocator.reason() == f"{name}: 507899: software NPU: 507899: NPU_FAIL fails {name}"


def fail_to_allocate() -> list[Any]:
    """For each call: nothing allocated, the reason, nothing held, back on device 0."""
    found = []
    for call in TO_ALLOCATE:
        with failing(call) as (acl, allocator):
            address = allocator.malloc(1, 1, NULL)
            found.append([address, names(allocator, call), held(acl), device(acl)])
    return found


def fail_to_unmap() -> list[Any]:
    """For each call: the reason, nothing changed, back on device 0; nothing held after a second."""
    found = []
    for call in TO_UNMAP:
        with failing(call) as (acl, allocator):
            address = allocator.malloc(1, 1, NULL)
            before = held(acl)
            allocator.free(address, 1, 1, NULL)
            unchanged = [names(allocator, call), held(acl) == before, device(acl)]
            allocator.free(address, 1, 1, NULL)
            found.append([*unchanged, held(acl)])
    return found


def fail_to_undo() -> list[Any]:
    """For each call: the reason, and what is lost of reservations, mappings and handles."""
    found = []
    for call in [*TO_RELEASE, *TWICE]:
        with failing(call) as (acl, allocator):
            before = acl.books()
            address = allocator.malloc(1, 1, NULL)
            allocator.free(address, 1, 1, NULL)
            lost = [now - then for now, then in zip(acl.books(), before, strict=True)]
            found.append([names(allocator, call), lost[1:4]])
    return found


def run_all(parent: Parent) -> dict[str, Any]:
    """What every scenario returned, or the traceback of what it raised."""
    return {scenario.__name__: _run(scenario) for scenario in SCENARIOS}


def _run(scenario: Any) -> Any:
    try:
        return scenario()
    except Exception:
        return traceback.format_exc()


# The first finds a process in which nothing was called yet, and the last leaves things behind.
SCENARIOS = [
    first_call,
    blocks,
    retain,
    free_under_way,
    free_on_a_failed_stream,
    come_back,
    misuse,
    probes,
    fail_to_allocate,
    fail_to_unmap,
    fail_to_undo,
]
