"""Three owners, one undo each, in any order, on real memory."""

from __future__ import annotations

import gc
import itertools
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from kvferry import _core
from kvferry.errors import ClosedError, NoMemory, UsageError
from kvferry.runtime import Access, Allocation, HostRuntime, Mapping, Reservation
from kvferry.runtime.owners import Owner, Undo

SIZE = 3 << 20
ORDERS = list(itertools.permutations(range(3)))

Owners = tuple[Allocation, Reservation, Mapping]


def own() -> Owners:
    runtime = HostRuntime(threads=1)
    allocation, reservation = runtime.allocate(SIZE), runtime.reserve(SIZE)
    return allocation, reservation, runtime.map(allocation, reservation, Access.WRITE)


def what_is_at(address: int) -> str | None:
    """Rights and name of what is mapped at exactly `address`."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, _offset, _device, _inode, *name = line.split(maxsplit=5)
        low, high = (int(part, 16) for part in addresses.split("-"))
        if low <= address < high:
            return " ".join([rights, *name])
    return None


def assert_free(address: int) -> None:
    """The whole range can be had again."""
    assert _core.vm_reserve_at(SIZE, address) == (0, address)
    assert _core.vm_release(address, SIZE) == 0


MAPPED = "rw-s /memfd:kvferry (deleted)"
RESERVED = "---p"


def test_undo_runs_once_whoever_calls() -> None:
    calls: list[int] = []
    for _ in range(50):
        undo, start = Undo(lambda: calls.append(1)), threading.Barrier(4)

        def race(undo: Undo = undo, start: threading.Barrier = start) -> None:
            start.wait()
            undo()

        threads = [threading.Thread(target=race) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(calls) == 50


@pytest.mark.parametrize("order", ORDERS)
def test_owners_close_in_any_order(order: tuple[int, ...]) -> None:
    owners = own()
    address = owners[1].address
    assert what_is_at(address) == MAPPED
    for position in order:
        owners[position].close()
        owners[position].close()
    assert_free(address)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(owners[0].handle)
    for owner in owners:
        with pytest.raises(ClosedError):
            owner.check()


@pytest.mark.parametrize("order", ORDERS)
def test_an_export_keeps_the_bytes_whatever_is_closed(order: tuple[int, ...]) -> None:
    owners = own()
    address = owners[1].address
    array = np.frombuffer(owners[2].view, np.uint8)
    array[::4096] = np.arange(SIZE // 4096) % 251
    for position in order:
        owners[position].close()
        assert what_is_at(address) == MAPPED
    with pytest.raises(BufferError):
        memoryview(owners[2].view)
    assert (array[::4096] == np.arange(SIZE // 4096) % 251).all()
    array[-1] = 9
    assert array[-1] == 9
    del array
    assert_free(address)


def test_closing_a_mapping_gives_its_place_back_to_the_reservation() -> None:
    runtime = HostRuntime(threads=1)
    with runtime.allocate(SIZE) as allocation, runtime.reserve(SIZE) as reservation:
        for value in (1, 2):
            with runtime.map(allocation, reservation, Access.WRITE) as mapping:
                assert bytes(memoryview(mapping.view)[:1]) == bytes([value - 1])
                memoryview(mapping.view)[0] = value
            assert what_is_at(reservation.address) == RESERVED


def test_a_reservation_has_one_mapping_at_a_time() -> None:
    allocation, reservation, mapping = own()
    runtime = HostRuntime()
    with pytest.raises(UsageError) as caught:
        runtime.map(allocation, reservation, Access.WRITE)
    assert caught.value.cause == "already_mapped"
    assert what_is_at(mapping.address) == MAPPED
    export = memoryview(mapping.view)
    mapping.close()
    with pytest.raises(UsageError):
        runtime.map(allocation, reservation, Access.WRITE)
    export.release()
    runtime.map(allocation, reservation, Access.WRITE).close()


def test_dropped_owners_close() -> None:
    allocation, reservation, mapping = own()
    address, handle = mapping.address, allocation.handle
    del allocation, reservation
    assert what_is_at(address) == MAPPED
    export = memoryview(mapping.view)
    del mapping
    assert what_is_at(address) == MAPPED
    export.release()
    assert_free(address)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


def test_a_dead_cycle_with_its_own_export_is_unmapped() -> None:
    owners = own()
    address = owners[2].address
    # Younger than the view, so that a collector that sees the view clears the view first.
    cycle: list[object] = [*owners, memoryview(owners[2].view)]
    cycle.append(cycle)
    del owners, cycle
    assert what_is_at(address) == MAPPED
    gc.collect()
    assert_free(address)


def test_a_with_block_closes_what_it_entered_when_it_fails() -> None:
    runtime = HostRuntime(threads=1)

    def fail() -> None:
        with runtime.allocate(SIZE), runtime.reserve(SIZE) as reservation:
            assert what_is_at(reservation.address) == RESERVED
            raise NoMemory("none", cause="test")

    with pytest.raises(NoMemory):
        fail()


def test_an_owner_must_say_how_it_closes() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Owner(lambda: None)  # type: ignore[abstract]
