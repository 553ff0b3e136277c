"""What can be registered, what its handle is worth, and memory of the package's own."""

from __future__ import annotations

import ctypes
import json
import mmap
import tempfile
import threading
from collections.abc import Callable

import hixl
import numpy as np

from .conftest import FABRIC, MIB, MakeSide, Start, bytes_at

HOST = hixl.MEM_HOST


def register(engine: hixl.Hixl, address: int, length: int) -> tuple[int, int]:
    return engine.register_mem(hixl.MemDesc(address, length), HOST)


def test_the_same_range_has_one_handle_and_no_other_may_overlap(start: Start) -> None:
    engine = start()
    buffer = np.zeros(MIB, np.uint8)
    base = buffer.ctypes.data
    status, handle = register(engine, base + 4096, 8192)
    assert status == hixl.SUCCESS
    assert handle
    assert register(engine, base + 4096, 8192) == (hixl.SUCCESS, handle)
    for address, length in (
        (base + 4096, 4096),
        (base, 8192),
        (base + 8192, 8192),
        (base, MIB),
        (base + 5000, 10),
    ):
        assert register(engine, address, length) == (hixl.PARAM_INVALID, 0)
    for address in (base, base + 12288):  # adjacent ones are none of them
        assert register(engine, address, 4096)[0] == hixl.SUCCESS


def test_deregistering_twice_is_nothing_and_null_is_refused(start: Start) -> None:
    engine = start()
    buffer = np.zeros(MIB, np.uint8)
    _, first = register(engine, buffer.ctypes.data, MIB)
    assert [engine.deregister_mem(first) for _ in range(2)] == [hixl.SUCCESS] * 2
    assert engine.deregister_mem(1 << 40) == hixl.SUCCESS
    assert engine.deregister_mem(0) == engine.deregister_mem(None) == hixl.PARAM_INVALID
    status, second = register(engine, buffer.ctypes.data, MIB)
    assert status == hixl.SUCCESS
    assert second != first


def test_there_is_no_device(start: Start, said: Callable[[], str]) -> None:
    engine = start()
    buffer = np.zeros(4096, np.uint8)
    desc = hixl.MemDesc(buffer.ctypes.data, 4096)
    assert engine.malloc_mem(hixl.MEM_DEVICE, 4096) == (hixl.UNSUPPORTED, 0)
    assert engine.register_mem(desc, hixl.MEM_DEVICE) == (hixl.UNSUPPORTED, 0)
    assert said().count("there is no device here") == 2


def test_what_is_no_memory_is_refused(start: Start) -> None:
    engine = start()
    assert register(engine, 0, 4096)[0] == hixl.PARAM_INVALID
    assert register(engine, 4096, 4096)[0] == hixl.PARAM_INVALID  # nothing is mapped there
    assert register(engine, (1 << 64) - 10, 4096)[0] == hixl.PARAM_INVALID
    assert register(engine, np.zeros(8).ctypes.data, 0)[0] == hixl.PARAM_INVALID
    with tempfile.TemporaryFile() as file:  # which could be cut short
        file.truncate(4096)
        with mmap.mmap(file.fileno(), 4096) as mapped:
            view = ctypes.c_char.from_buffer(mapped)
            assert register(engine, ctypes.addressof(view), 4096)[0] == hixl.PARAM_INVALID
            del view


def test_memory_of_its_own(start: Start) -> None:
    engine = start()
    status, address = engine.malloc_mem(HOST, MIB)
    assert status == hixl.SUCCESS
    assert not bytes_at(address, MIB).any()
    first, second = register(engine, address, 4096), register(engine, address + 4096, 4096)
    assert first[0] == second[0] == hixl.SUCCESS
    assert register(engine, address + MIB - 10, 20)[0] == hixl.PARAM_INVALID  # leaves it
    assert engine.free_mem(address) == hixl.FAILED  # something of it is registered
    for _, handle in (first, second):
        engine.deregister_mem(handle)
    assert engine.free_mem(address) == hixl.SUCCESS
    assert engine.free_mem(address) == hixl.PARAM_INVALID
    assert engine.free_mem(0) == hixl.PARAM_INVALID
    assert engine.malloc_mem(HOST, 0) == (hixl.PARAM_INVALID, 0)


def test_there_is_a_most_that_can_be_had(start: Start) -> None:
    config = json.dumps({"fabric_memory.max_capacity": 1})
    engine = start(options={hixl.OPTION_GLOBAL_RESOURCE_CONFIG: config})
    assert engine.malloc_mem(HOST, (1 << 40) + 1) == (hixl.RESOURCE_EXHAUSTED, 0)
    assert engine.malloc_mem(HOST, 1 << 40) == (hixl.RESOURCE_EXHAUSTED, 0)  # the machine has not


def test_under_fabric_mem_deregistering_waits_for_a_disconnect(side: MakeSide) -> None:
    ours, theirs = side(FABRIC), side(FABRIC)
    assert ours.engine.connect(theirs.name) == hixl.SUCCESS
    assert ours.engine.deregister_mem(ours.handle) == hixl.FAILED
    assert ours.engine.disconnect(theirs.name) == hixl.SUCCESS
    assert ours.engine.deregister_mem(ours.handle) == hixl.SUCCESS


def test_otherwise_deregistering_is_possible_while_connected(side: MakeSide) -> None:
    ours, theirs = side(), side()
    ours.engine.connect(theirs.name)
    ops = [hixl.TransferOpDesc(ours.address, theirs.address, 4096)]
    assert ours.engine.deregister_mem(ours.handle) == hixl.SUCCESS
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.PARAM_INVALID


def test_many_threads_register_the_same_range_once(start: Start) -> None:
    engine = start()
    buffer = np.zeros(MIB, np.uint8)
    handles: list[tuple[int, int]] = []

    def work() -> None:
        handles.append(register(engine, buffer.ctypes.data, MIB))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(handles) == 8
    assert len(set(handles)) == 1
