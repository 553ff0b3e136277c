"""What the CANN runtime obtains of the machine: memory and addresses, on the software NPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from kvferry.errors import NoMemory, UsageError
from kvferry.runtime import Access, Place, ShareHandle
from kvferry.runtime.cann.runtime import CannRuntime
from kvferry.testing import Parent
from tests.runtime.cann.npu import (
    ALONE,
    BOTH,
    EMPTY,
    GIANT,
    HUGE,
    Recorded,
    Two,
    books,
    held,
    is_high,
    library,
    load,
    mapped,
    runtime,
    store,
    why,
)

TERA = 1 << 40


# ---- allocate ----


def allocate_in_all_places(parent: Parent) -> None:
    with runtime() as here:
        assert held() == ALONE
        for place in BOTH:
            assert here.granularity(place) == [HUGE, GIANT]
            for asked, page, granted, got in [
                (1, 0, HUGE, HUGE),
                (HUGE + 1, HUGE, 2 * HUGE, HUGE),
                (1, GIANT, GIANT, GIANT),
                (GIANT + 1, HUGE, GIANT + HUGE, HUGE),
            ]:
                with here.allocate(asked, place, page) as memory:
                    assert memory.grant == (asked, granted, got, granted, ())
                    assert (memory.size, memory.page) == (granted, got)
        with here.allocate(GIANT + 1, Place.HOST) as memory:
            assert (memory.size, memory.page) == (2 * GIANT, GIANT)
        assert held() == ALONE


def fall_back_to_smaller_pages(parent: Parent) -> None:
    with (
        runtime(5, NPU_FAIL="aclrtMallocPhysical:1=207001,aclrtMallocPhysical:2=207000") as here,
        here.allocate(GIANT, Place.HOST) as memory,
    ):
        assert memory.grant is not None
        assert memory.grant.page == HUGE
        first, second = memory.grant.notes
        assert first.startswith(
            "MEM_P2P_HUGE1G at HOST_NUMA 2: aclrtMallocPhysical returned 207001"
        )
        assert second.startswith("MEM_P2P_HUGE1G at HOST 0: aclrtMallocPhysical returned 207000")


def be_without_large_pages_elsewhere_than_on_the_a3(parent: Parent) -> None:
    with runtime(NPU_PROFILE="A2") as here:
        assert not here.caps.cross_host
        assert here.granularity(Place.HOST) == [HUGE]
        assert why(here.allocate, 1, Place.HOST, GIANT) == [UsageError, "bad_page", None]
        with here.allocate(GIANT, Place.HOST) as memory:
            assert memory.grant is not None
            assert memory.grant.page == HUGE
            assert len(memory.grant.notes) == 2


def have_no_more_than_there_is(parent: Parent) -> None:
    options = {"va_capacity": 4 * GIANT}
    with runtime(NPU_CAPACITY="1G", options=options) as here:
        full = [NoMemory, "no_memory"]
        assert why(here.allocate, 5 * GIANT, Place.DEVICE) == [*full, None]
        assert why(here.allocate, 2 * GIANT, Place.DEVICE) == [*full, 207001]
        with here.allocate(4 * GIANT) as memory:
            # It takes addresses twice.
            assert why(mapped, here, memory) == [NoMemory, "no_addresses", None]


def stop_at_what_is_no_refusal(parent: Parent) -> None:
    """A device that does not answer has not run out of memory."""
    with runtime(NPU_FAIL="aclrtMallocPhysical:1=507010") as here:
        assert why(here.allocate, GIANT)[1:] == ["device_silent", 507010]


# ---- refused before any call ----


def ask_for_what_cannot_be(parent: Parent) -> None:
    noted = Recorded.of(library())
    for number in (-1, 8):
        assert why(CannRuntime, noted, number) == [UsageError, "bad_device", None]
    assert set(noted.names) == {"aclrtGetDeviceCount"}
    noted.names.clear()
    assert why(CannRuntime, noted, 0, shared="memfd") == [UsageError, "bad_handle", None]
    for start, capacity in [
        (16 * TERA, GIANT),
        (40 * TERA + 1, GIANT),
        (40 * TERA, GIANT + 1),
        (224 * TERA, GIANT),
        (40 * TERA, 0),
    ]:
        assert why(CannRuntime, noted, 0, va_start=start, va_capacity=capacity)[1] == "bad_range"
    assert noted.names == []
    with runtime(library_=noted) as here, here.allocate(1) as memory, here.reserve(1) as room:
        read_only = ShareHandle(None, HUGE, HUGE, Access.READ, "vmm-fabric", bytes(128))
        noted.names.clear()
        for size, page, cause in [(0, 0, "bad_size"), (-1, 0, "bad_size"), (1, 4096, "bad_page")]:
            assert why(here.allocate, size, Place.DEVICE, page) == [UsageError, cause, None]
        assert why(here.allocate, 33 * TERA) == [NoMemory, "no_memory", None]
        assert why(here.reserve, 0)[1] == "bad_range"
        assert why(here.map, memory, room, Access.WRITE)[1] == "bad_range"
        changes: list[dict[str, Any]] = [
            {"kind": "memfd"},
            {"kind": "ipc-key", "data": bytes(65)},
            {"data": bytes(127)},
            {"kind": "vmm-default"},
            {"size": 0},
            {"size": HUGE + 1},
            {"page": 0},
            {"fd": os.open("/dev/null", os.O_RDONLY)},
        ]
        for change in changes:
            assert why(here.import_handle, read_only._replace(**change))[1] == "bad_handle"
        assert noted.names == []


# ---- addresses ----


def carve_one_reservation(parent: Parent) -> None:
    with runtime(options={"va_capacity": 4 * GIANT}) as here, ExitStack() as owners:
        rooms = [owners.enter_context(here.reserve(1)) for _ in range(4)]
        assert [room.address for room in rooms] == [40 * TERA + k * GIANT for k in range(4)]
        assert why(here.reserve, 1)[:2] == [NoMemory, "no_addresses"]
        rooms[1].close()
        assert owners.enter_context(here.reserve(GIANT)).address == 40 * TERA + GIANT
        assert held() == ALONE


def live_beside_another_runtime(parent: Parent) -> None:
    whole = library()
    with runtime(0, library_=whole) as first:
        second = CannRuntime(whole, 1)
        with first.reserve(1) as one, second.reserve(1) as other:
            assert is_high(one)
            assert not is_high(other)
        assert "no 35184372088832 bytes of addresses from 0x280000000000 on" in second.notes[0]
        assert first.notes == ()
        second.close()


def reserve_elsewhere_than_on_the_a3(parent: Parent) -> None:
    for profile in ("A2", "950"):
        with runtime(NPU_PROFILE=profile) as here, here.reserve(1) as room:
            assert room.address % GIANT == 0
            assert not is_high(room)
            assert here.notes == ()


def take_fewer_addresses_than_asked_for(parent: Parent) -> None:
    fail = "aclrtReserveMemAddressNoUCMemory=207001,aclrtReserveMemAddress:1=207001"
    with runtime(NPU_FAIL=fail, options={"va_start": 192 * TERA}) as here:
        assert here.notes[-1] == (
            "17592186044416 bytes of addresses were granted, not 35184372088832"
        )
    fail = "aclrtReserveMemAddressNoUCMemory=207001,aclrtReserveMemAddress=207001"
    assert why(CannRuntime, library(NPU_FAIL=fail), 0)[::2] == [NoMemory, 207001]
    assert books() == EMPTY


def reserve_at_an_address(parent: Parent) -> None:
    """16T to 24T, and none of it on the 950."""
    with runtime() as here, here.allocate(1, Place.DEVICE) as memory:
        with here.reserve(HUGE, 16 * TERA) as room, here.map(memory, room, Access.WRITE) as mapping:
            assert mapping.address == 16 * TERA
            store(mapping, b"there")
            assert load(mapping, 5) == b"there"
            assert why(here.reserve, HUGE, 16 * TERA) == [NoMemory, "address_taken", 207001]
        assert why(here.reserve, HUGE, 24 * TERA) == [UsageError, "bad_argument", 107000]
    with runtime(NPU_PROFILE="950") as here:
        assert why(here.reserve, HUGE, 16 * TERA) == [UsageError, "bad_argument", 107000]


JOBS = [
    allocate_in_all_places,
    fall_back_to_smaller_pages,
    be_without_large_pages_elsewhere_than_on_the_a3,
    have_no_more_than_there_is,
    stop_at_what_is_no_refusal,
    ask_for_what_cannot_be,
    carve_one_reservation,
    live_beside_another_runtime,
    reserve_elsewhere_than_on_the_a3,
    take_fewer_addresses_than_asked_for,
    reserve_at_an_address,
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_it_can(two: Two, job: Callable[[Parent], None]) -> None:
    assert two.user.do(job) is None
