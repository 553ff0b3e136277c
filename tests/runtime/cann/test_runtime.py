"""Memory of the CANN runtime in one process, on the software NPU."""

from __future__ import annotations

import ctypes
import io
import logging
import os
import threading
from collections.abc import Callable

import pytest

from kvferry.errors import ClosedError, RightsError, Unsupported, UsageError
from kvferry.runtime import Access, Place
from kvferry.runtime.cann import Capability, Library
from kvferry.runtime.cann.enums import MemAttr, MemLocationType
from kvferry.runtime.cann.runtime import CannRuntime
from kvferry.runtime.cann.structs import MemLocation, PhysicalMemProp
from kvferry.testing import Parent
from tests.runtime.cann.npu import (
    ALONE,
    BOTH,
    EMPTY,
    GIANT,
    HUGE,
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

# ---- map ----


def reach_memory_where_it_was_mapped(parent: Parent) -> None:
    with runtime() as here:
        for place in BOTH:
            memory = here.allocate(1, place)
            mapping = mapped(here, memory)
            memory.close()
            store(mapping, b"still there", 100)
            assert load(mapping, 11, 100) == b"still there"
            (alias,) = here.aliases.overlapping(mapping.address, 1)
            assert (alias.base, alias.length) == (mapping.address, HUGE)
            assert (alias.here == alias.base) is (place is Place.DEVICE)
            assert (mapping.reach is None) is (place is Place.HOST)
            through = bytearray(11)
            assert here._reach.load(alias.here + 100, through) == 0
            assert through == b"still there"
            mapping.close()
            assert len(here.aliases) == 0
            assert held() == ALONE


def map_once_a_reservation(parent: Parent) -> None:
    with (
        runtime() as here,
        here.allocate(1) as one,
        here.allocate(1) as other,
        here.reserve(GIANT) as room,
        here.map(one, room, Access.WRITE),
    ):
        assert why(here.map, other, room, Access.WRITE)[1] == "already_mapped"
        with here.reserve(HUGE) as small, here.allocate(2 * HUGE) as large:
            assert why(here.map, large, small, Access.WRITE)[1] == "bad_range"


def close_in_any_order(parent: Parent) -> None:
    """The runtime first: it goes with its last owner."""
    here = CannRuntime(library(), 0)
    memory = here.allocate(1)
    mapping = mapped(here, memory)
    buffer = memoryview(mapping.view)
    here.close()
    here.close()
    assert why(here.allocate, 1)[0] is ClosedError
    assert why(here.export, memory, Access.WRITE)[0] is ClosedError
    memory.close()
    mapping.close()
    buffer[0] = 1
    assert held()["mappings"] == 2
    buffer.release()
    assert books() == EMPTY


# ---- export and import ----


def give_back_what_was_dropped(parent: Parent) -> None:
    with runtime() as here:
        for place in BOTH:
            memory = here.allocate(1, place)
            mapping = mapped(here, memory)
            del memory, mapping
        assert held() == ALONE


def share_imports_between_threads(parent: Parent) -> None:
    with runtime() as here, here.allocate(1) as own:
        handle = here.export(own, Access.WRITE)
        failed: list[Exception] = []

        def import_often() -> None:
            try:
                for _ in range(20):
                    with here.import_handle(handle) as memory:
                        mapped(here, memory).close()
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=import_often) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert held() == {**ALONE, "handles": 1}


def export_once(parent: Parent) -> None:
    """ACL refuses a second export; the rights of the first stand."""
    with runtime() as here, here.allocate(1, Place.DEVICE) as memory:
        handle = here.export(memory, Access.READ, os.getpid())
        assert handle == here.export(memory, Access.READ, os.getpid())
        assert handle[:5] == (None, HUGE, HUGE, Access.READ, "vmm-fabric")
        assert why(here.export, memory, Access.WRITE) == [RightsError, "export_rights", None]
        gone = why(here.export, memory, Access.READ, 1 << 22)
        assert gone == [UsageError, "bad_argument", 107000]


def import_own_memory(parent: Parent) -> None:
    """The host's, as device addresses of it are had; the device's lies there already."""
    with runtime() as here, here.allocate(1) as own, here.allocate(1, Place.DEVICE) as refused:
        handle = here.export(own, Access.WRITE)
        with here.import_handle(handle) as again, mapped(here, again) as mapping:
            store(mapping, b"through the import")
            assert why(here.export, again, Access.WRITE) == [RightsError, "imported", None]
            with mapped(here, own) as direct:
                assert load(direct, 18) == b"through the import"
        handle = here.export(refused, Access.WRITE)
        assert why(here.import_handle, handle) == [Unsupported, "not_supported", 207000]


def map_only_the_whole_of_an_import(parent: Parent) -> None:
    with runtime() as here, here.allocate(2 * HUGE) as own:
        handle = here.export(own, Access.WRITE)
        for size in (HUGE, 3 * HUGE):
            with here.import_handle(handle._replace(size=size)) as lie:
                assert why(mapped, here, lie) == [UsageError, "bad_argument", 107000]


def warn_of_exports_without_a_list(parent: Parent) -> None:
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger("kvferry.runtime").addHandler(handler)
    with runtime(options={"validate_pids": False}) as here:
        for _ in range(2):
            with here.allocate(1, Place.DEVICE) as memory:
                here.export(memory, Access.WRITE, os.getpid())
    logging.getLogger("kvferry.runtime").removeHandler(handler)
    assert len(said.getvalue().splitlines()) == 1


# ---- memory of others ----


def mapped_by_others(whole: Library) -> tuple[int, int]:
    """The address and the handle of memory that the vendor's own calls made."""
    prop = PhysicalMemProp(
        mem_attr=MemAttr.HBM_MEM_HUGE, location=MemLocation(type=MemLocationType.DEVICE)
    )
    address, handle = ctypes.c_void_p(), ctypes.c_void_p()
    whole.call("aclrtMallocPhysical", ctypes.byref(handle), 2 * HUGE, ctypes.byref(prop), 0)
    whole.call("aclrtReserveMemAddress", ctypes.byref(address), 2 * HUGE, 0, None, 1)
    whole.call("aclrtMapMem", address, 2 * HUGE, 0, handle, 0)
    return address.value or 0, handle.value or 0


def retain_what_others_mapped(parent: Parent) -> None:
    """Two pieces of one allocation are one export; each retaining is freed."""
    whole = library()
    with runtime(library_=whole) as here:
        with here.device.using():
            address, handle = mapped_by_others(whole)
        first, second = here.retain(address), here.retain(address + HUGE)
        assert first is not None
        assert second is not None
        assert (first.address, first.size, first.page) == (address, 2 * HUGE, HUGE)
        assert second.address == address
        data = here.export(first, Access.WRITE, os.getpid()).data
        assert data == here.export(second, Access.WRITE, os.getpid()).data
        assert [each.here for each in here.aliases.overlapping(address, 1)] == [address]
        first.close()
        assert len(here.aliases) == 1
        second.close()
        assert len(here.aliases) == 0
        with here.device.using():
            for name, argument in [
                ("aclrtUnmapMem", address),
                ("aclrtReleaseMemAddress", address),
                ("aclrtFreePhysical", handle),
            ]:
                whole.call(name, argument)
        assert held() == ALONE


def retain_what_is_ours_or_nobodys(parent: Parent) -> None:
    with runtime() as here:
        with here.allocate(1, Place.DEVICE) as own, mapped(here, own) as mapping:
            handle = here.export(own, Access.WRITE)
            again = here.retain(mapping.address + 1)
            assert again is not None
            own.close()
            assert here.export(again, Access.WRITE).data == handle.data
            again.close()
        assert here.retain(id(here)) is None
        with here.device.using():
            plain = here.device.made("aclrtMalloc", HUGE, 0)
        assert here.retain(plain) is None
        here.device.call("aclrtFree", plain)


def retain_nothing_on_hdk_25(parent: Parent) -> None:
    with (
        runtime(NPU_HDK="25.5") as here,
        here.allocate(1, Place.DEVICE) as own,
        mapped(here, own) as mapping,
    ):
        refused = why(here.retain, mapping.address)
        assert refused == [Unsupported, "not_supported", 207000]


# ---- capabilities, contexts, forks ----


def lack(capability: Capability, **environ: str) -> Library:
    whole = library(**environ)
    whole.missing = {**whole.missing, capability: ("aclrtThis",)}
    return whole


def do_without(parent: Parent) -> None:
    """What needs a function that the library lacks, and that alone, says so."""
    absent = [Unsupported, "no_function", None]
    assert why(CannRuntime, lack(Capability.PIDS), 0) == absent
    with (
        runtime(library_=lack(Capability.PIDS), options={"validate_pids": False}) as here,
        here.allocate(1) as memory,
        mapped(here, memory),
    ):
        assert here.whoami().tgid is None
    with runtime(library_=lack(Capability.HIGH_RESERVE)) as here, here.reserve(1) as room:
        assert not is_high(room)
    with runtime(library_=lack(Capability.NUMBERS)) as here, here.allocate(1) as memory:
        mapped(here, memory).close()
    with (
        runtime(library_=lack(Capability.RETAIN)) as here,
        here.allocate(1) as memory,
        # Nobody tells where imported memory lies, so all devices are let at.
        here.import_handle(here.export(memory, Access.WRITE)) as again,
    ):
        mapped(here, again).close()
    with runtime(library_=lack(Capability.SHARING_V2)) as here:
        with here.allocate(1, Place.DEVICE) as memory, mapped(here, memory):
            assert why(here.export, memory, Access.WRITE) == absent
        with here.allocate(1) as memory:
            assert why(mapped, here, memory) == absent
    for capability in (Capability.RETAIN, Capability.RANGES):
        with runtime(library_=lack(capability)) as here, here.allocate(1) as memory:
            mapped(here, memory).close()
            assert why(here.retain, 1) == absent


def current(whole: Library) -> int | None:
    place = ctypes.c_void_p()
    code = whole.call("aclrtGetCurrentContext", ctypes.byref(place), allow=(107002,))
    return None if code else place.value


def leave_contexts_of_callers_alone(parent: Parent) -> None:
    whole = library()
    whole.call("aclInit", None)
    whole.call("aclrtSetDevice", 3)
    before = current(whole)
    with runtime(0, library_=whole) as here, here.allocate(1) as memory:
        mapped(here, memory).close()
        assert current(whole) == before
        # A thread that never had a context can use everything, too.
        thread = threading.Thread(target=lambda: mapped(here, memory).close())
        thread.start()
        thread.join()
        assert held() == {"reservations": 1, "contexts": 3, "handles": 1}
        assert current(whole) == before
        memory.close()
        whole.call("aclrtResetDevice", 3)


def do_nothing_in_a_fork(parent: Parent) -> None:
    with runtime() as here, here.allocate(1, Place.DEVICE) as memory:
        mapping = mapped(here, memory)
        before = books()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                refused = why(here.allocate, 1)[1] == why(here.export, memory, Access.READ)[1]
                mapping.close()
                memory.close()
                here.close()
                code = 0 if refused and books() == before else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert books() == before
        store(mapping, b"whole")
        assert load(mapping, 5) == b"whole"
        mapping.close()


JOBS = [
    reach_memory_where_it_was_mapped,
    map_once_a_reservation,
    close_in_any_order,
    give_back_what_was_dropped,
    share_imports_between_threads,
    export_once,
    import_own_memory,
    map_only_the_whole_of_an_import,
    warn_of_exports_without_a_list,
    retain_what_others_mapped,
    retain_what_is_ours_or_nobodys,
    retain_nothing_on_hdk_25,
    do_without,
    leave_contexts_of_callers_alone,
    do_nothing_in_a_fork,
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_it_can(two: Two, job: Callable[[Parent], None]) -> None:
    assert two.user.do(job) is None
