"""What a forked child sees of its parent's memory: nothing, and it takes nothing down."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kvferry import _core
from kvferry.errors import ForkedError
from kvferry.runtime import Access, Allocation, HostRuntime, Mapping, Reservation
from kvferry.testing import Child, Parent

SIZE = 4 << 20

Spawn = Callable[..., Child]
Owners = tuple[Allocation, Reservation, Mapping]


def own() -> Owners:
    runtime = HostRuntime(threads=1)
    allocation, reservation = runtime.allocate(SIZE), runtime.reserve(2 * SIZE)
    return allocation, reservation, runtime.map(allocation, reservation, Access.WRITE)


def in_fork(work: Callable[[], None]) -> int:
    """The status of a forked child that does `work`: 0 when it returned, minus a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def finalizers(parent: Parent, how: str) -> int:
    owners = list(own())
    allocation, reservation, mapping = owners
    export = memoryview(mapping.view)
    export[:5] = b"mine "
    handle, address = allocation.handle, reservation.address
    if how == "deferred":
        for owner in owners:
            owner.close()
        handle = os.open("/dev/null", os.O_RDONLY)

    def work() -> None:
        assert "memfd:kvferry" not in Path("/proc/self/maps").read_text()
        # The child uses the empty addresses for something of its own.
        assert _core.vm_reserve_at(2 * SIZE, address) == (0, address)
        if how == "closed":
            for owner in owners:
                owner.close()
        nonlocal allocation, reservation, mapping
        del allocation, reservation, mapping
        owners.clear()
        export.release()
        gc.collect()
        os.fstat(handle)
        assert _core.vm_reserve_at(2 * SIZE, address)[0] != 0, "something was unmapped"

    status = in_fork(work)
    assert export[:5] == b"mine "
    return status


@pytest.mark.parametrize("how", ["dropped", "closed", "deferred"])
def test_finalizers_do_nothing_in_a_child(spawn: Spawn, how: str) -> None:
    assert spawn(finalizers, how).result() == 0


def touch(parent: Parent, where: int) -> int:
    allocation, _reservation, mapping = own()
    export = memoryview(mapping.view)
    export[where] = 42

    def work() -> None:
        faulthandler.disable()
        os.write(1, b"") if export[where] == 42 else None

    status = in_fork(work)
    assert export[where] == 42
    assert not allocation.closed
    return status


@pytest.mark.parametrize("where", [0, SIZE - 1])
def test_touching_a_view_in_a_child_is_a_fault(spawn: Spawn, where: int) -> None:
    assert spawn(touch, where).result() == -signal.SIGSEGV


def verbs(parent: Parent) -> int:
    runtime = HostRuntime(threads=1)
    allocation, reservation = runtime.allocate(SIZE), runtime.reserve(SIZE)

    def refused(verb: Callable[[], object]) -> None:
        try:
            verb()
        except ForkedError:
            return
        raise AssertionError("not refused")

    def work() -> None:
        refused(lambda: runtime.map(allocation, reservation, Access.WRITE))
        refused(lambda: runtime.export(allocation, Access.READ))
        refused(lambda: runtime.map(runtime.allocate(SIZE), reservation, Access.WRITE))

    return in_fork(work)


def test_verbs_on_what_the_parent_made_are_refused(spawn: Spawn) -> None:
    assert spawn(verbs).result() == 0
