"""The nine points that HIXL's FabricMem design asks to be checked, one test or more each."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable

import hixl
import numpy as np
import pytest

from kvferry.testing import Child
from kvferry.testing.leaks import holdings

from .conftest import AUTO, DIRECT, FABRIC, MIB, MakeSide, Start, free_address
from .peer import pattern, serve

Op = hixl.TransferOpDesc


def unfold(by_coprocessor: bool, limit: int = 1920, streams: int = 1) -> dict[str, str]:
    config = {
        "fabric_memory.enable_aicpu_unfold": by_coprocessor,
        "fabric_memory.task_stream_num": streams,
        "transfer_config.max_transfer_count_per_batch": limit,
    }
    return {**FABRIC, hixl.OPTION_GLOBAL_RESOURCE_CONFIG: json.dumps(config)}


def channel_of(engine: hixl.Hixl, remote: str) -> object:
    return engine._session.connections.get(remote)


def scattered(ours: object, theirs: object, count: int, block: int = 64) -> list[Op]:
    """`count` blocks, backwards on one side, so that none can be joined."""
    return [
        Op(ours.address + (count - n) * block, theirs.address + n * block, block)
        for n in range(count)
    ]


def stats(engine: hixl.Hixl, remote: str) -> object:
    (found,) = channel_of(engine, remote).stats.values()
    return found


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (FABRIC, "fabric/coprocessor/none"),
        (unfold(False), "fabric/host/none"),
        (DIRECT, "fabric/host/none"),
        ({}, "fabric/host/none"),
    ],
)
def test_1_the_option_decides_the_engine(
    side: MakeSide, options: dict[str, str], path: str
) -> None:
    ours, theirs = side(options), side(options)
    assert ours.engine.connect(theirs.name) == hixl.SUCCESS
    channel = channel_of(ours.engine, theirs.name)
    assert str(channel.path) == path
    fabric_mem = options.get(hixl.OPTION_ENABLE_USE_FABRIC_MEM) == "1"
    assert (channel.foreign_path is None) == fabric_mem


@pytest.mark.parametrize("by_coprocessor", [True, False])
def test_2_the_limit_of_a_batch_is_checked_in_both_modes(
    start: Start, said: Callable[[], str], by_coprocessor: bool
) -> None:
    for limit in (0, 1921):
        assert hixl.Hixl().initialize("127.0.0.1", unfold(by_coprocessor, limit)) == (
            hixl.PARAM_INVALID
        )
    assert said().count("max_transfer_count_per_batch") == 2
    for limit in (1, 1920):
        start(options=unfold(by_coprocessor, limit))


def test_2_what_else_contradicts_fabric_mem() -> None:
    for options in (
        {**FABRIC, hixl.OPTION_BUFFER_POOL: "4:8"},
        {**FABRIC, hixl.OPTION_BUFFER_POOL: "1:1"},
        unfold(True, streams=2),
        {**FABRIC, hixl.OPTION_GLOBAL_RESOURCE_CONFIG: '{"fabric_memory.max_capacity": 1025}'},
        {**FABRIC, hixl.OPTION_GLOBAL_RESOURCE_CONFIG: '{"fabric_memory.start_address": 1025}'},
    ):
        assert hixl.Hixl().initialize("127.0.0.1", options) == hixl.PARAM_INVALID, options


@pytest.mark.parametrize(("limit", "batches"), [(1, 100), (7, 15), (1920, 1)])
def test_2_the_limit_cuts_logical_batches_of_the_coprocessor(
    side: MakeSide, limit: int, batches: int
) -> None:
    ours, theirs = side(unfold(True, limit)), side(unfold(True, limit))
    ours.engine.connect(theirs.name)
    ours.bytes[:] = pattern(1, MIB)
    ops = scattered(ours, theirs, 100)
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.SUCCESS
    assert stats(ours.engine, theirs.name).coprocessor_batches == batches
    check_scattered(ours, theirs, ops)


def test_2_the_limit_neither_cuts_nor_synchronises_on_the_host(side: MakeSide) -> None:
    ours, theirs = side(unfold(False, 1)), side(unfold(False, 1))
    ours.engine.connect(theirs.name)
    ours.bytes[:] = pattern(1, MIB)
    ops = scattered(ours, theirs, 100, 4096)
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.SUCCESS
    found = stats(ours.engine, theirs.name)
    assert (found.stream_submissions, found.coprocessor_batches) == (1, 0)
    check_scattered(ours, theirs, ops)


def check_scattered(ours: object, theirs: object, ops: list[Op]) -> None:
    for op in ops:
        here, there = op.local_addr - ours.address, op.remote_addr - theirs.address
        assert np.array_equal(
            ours.bytes[here : here + op.len], theirs.bytes[there : there + op.len]
        )


def test_3_host_memory_of_the_callers_needs_no_detour(side: MakeSide) -> None:
    """There is no device whose view of it would differ: it is the local side as it is."""
    ours, theirs = side(FABRIC), side(FABRIC)
    buffer = pattern(6, MIB)
    desc = hixl.MemDesc(buffer.ctypes.data, MIB)
    assert ours.engine.register_mem(desc, hixl.MEM_HOST)[0] == hixl.SUCCESS
    assert ours.engine.register_mem(desc, hixl.MEM_DEVICE)[0] == hixl.UNSUPPORTED
    ours.engine.connect(theirs.name)
    ops = [Op(buffer.ctypes.data, theirs.address, MIB)]
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.SUCCESS
    assert np.array_equal(theirs.bytes, pattern(6, MIB))


@pytest.mark.parametrize("options", [FABRIC, unfold(False), DIRECT])
def test_4_ranges_lie_in_memory_that_is_registered_on_both_sides(
    side: MakeSide, options: dict[str, str]
) -> None:
    ours, theirs = side(options), side(options)
    ours.engine.connect(theirs.name)
    ours.bytes[:] = 1
    end = MIB - 8
    for here, there in ((-8, 0), (end, 0), (0, -8), (0, end), (MIB, 0), (0, MIB)):
        for op in hixl.TransferOp:
            ops = [
                Op(ours.address, theirs.address, 16),
                Op(ours.address + here, theirs.address + there, 16),
            ]
            status = ours.engine.transfer_sync(theirs.name, op, ops)
            assert status == hixl.PARAM_INVALID, (here, there)
            assert ours.engine.transfer_async(theirs.name, op, ops)[0] == hixl.PARAM_INVALID
    assert not theirs.bytes.any(), "nothing moved of a call one of whose descriptors is refused"
    assert (ours.bytes == 1).all()


@pytest.mark.parametrize("by_coprocessor", [True, False])
def test_5_streams_are_reused_and_none_is_lost(side: MakeSide, by_coprocessor: bool) -> None:
    options = unfold(by_coprocessor)
    ours, theirs = side(options, 4 * MIB), side(options, 4 * MIB)
    ours.engine.connect(theirs.name)
    ops = [Op(ours.address, theirs.address, 4 * MIB)]
    before = None
    for _ in range(10):
        status, request = ours.engine.transfer_async(theirs.name, hixl.WRITE, ops)
        assert status == hixl.SUCCESS
        while ours.engine.get_transfer_status(request)[1] is hixl.TransferStatus.WAITING:
            pass
        # Threads aside: one that serves peers may begin at any time, for good.
        now = {name: size for name, size in holdings().items() if not name.startswith("thread")}
        # What an earlier round let go of may have ended only now.
        assert before is None or all(size <= before.get(name, 0) for name, size in now.items())
        before = now


def test_6_the_outcome_of_a_request_is_told_once(side: MakeSide) -> None:
    ours, theirs = side(unfold(False), 8 * MIB), side(unfold(False), 8 * MIB)
    ours.engine.connect(theirs.name)
    copies = ours.engine._session.engine.copy_engines
    ops = [Op(ours.address, theirs.address, 8 * MIB)]
    copies.hold(True)
    _, request = ours.engine.transfer_async(theirs.name, hixl.WRITE, ops)
    for _ in range(3):
        waiting = (hixl.SUCCESS, hixl.TransferStatus.WAITING)
        assert ours.engine.get_transfer_status(request) == waiting
    copies.hold(False)
    told: list[tuple[int, hixl.TransferStatus]] = []

    def ask() -> None:
        while (found := ours.engine.get_transfer_status(request)) == waiting:
            pass
        told.append(found)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gone = (hixl.PARAM_INVALID, hixl.TransferStatus.FAILED)
    assert sorted(told) == [(hixl.SUCCESS, hixl.TransferStatus.COMPLETED), gone, gone, gone]
    assert ours.engine.get_transfer_status(0) == gone


def test_7_a_disconnect_unmaps_what_was_imported(side: MakeSide) -> None:
    ours, theirs = side(FABRIC), side(FABRIC)
    before = holdings()
    for _ in range(3):
        assert ours.engine.connect(theirs.name) == hixl.SUCCESS
        during = holdings()
        assert sum((during - before).values()) >= MIB, "the peer's memory is mapped a second time"
        assert ours.engine.disconnect(theirs.name) == hixl.SUCCESS
        assert not mappings(holdings() - before)


def mappings(held: dict[str, int]) -> list[str]:
    return [name for name in held if name.startswith("mapping")]


@pytest.mark.parametrize("options", [FABRIC, DIRECT])
@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_8_threads_transfer_while_others_connect_and_register(
    side: MakeSide, options: dict[str, str], rounds: int
) -> None:
    ours, steady, restless = side(options), side(options), side(options)
    assert ours.engine.connect(steady.name) == hixl.SUCCESS
    ours.bytes[:] = pattern(1, MIB)
    over, found = threading.Event(), set()
    part = MIB // 4

    def transfer(n: int) -> None:
        ops = [Op(ours.address + n * part, steady.address + n * part, part)]
        while not over.is_set():
            found.add(("steady", ours.engine.transfer_sync(steady.name, hixl.WRITE, ops, 5000)))

    def begin() -> None:
        ops = [Op(ours.address, restless.address, 4096)]
        while not over.is_set():
            status, request = ours.engine.transfer_async(restless.name, hixl.WRITE, ops)
            found.add(("restless", status))
            while ours.engine.get_transfer_status(request)[1] is hixl.TransferStatus.WAITING:
                pass

    def register() -> None:
        buffer = np.zeros(4096, np.uint8)
        while not over.is_set():
            desc = hixl.MemDesc(buffer.ctypes.data, 4096)
            found.add(("register", ours.engine.register_mem(desc, hixl.MEM_HOST)[0]))

    work = [(transfer, n) for n in range(4)] + [(begin,), (register,)]
    threads = [threading.Thread(target=f, args=args) for f, *args in work]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        # Long: threads that do nothing but ask have the interpreter most of the time.
        assert ours.engine.connect(restless.name, 60_000) == hixl.SUCCESS
        assert ours.engine.disconnect(restless.name) == hixl.SUCCESS
    over.set()
    for thread in threads:
        thread.join()
    assert {status for who, status in found if who != "restless"} == {hixl.SUCCESS}
    statuses = {status for who, status in found if who == "restless"}
    assert statuses <= {hixl.SUCCESS, hixl.NOT_CONNECTED}
    assert np.array_equal(steady.bytes, pattern(1, MIB))


def test_9_a_peer_that_dies_leaves_nothing_behind(
    spawn: Callable[..., Child], side: MakeSide
) -> None:
    ours = side({**FABRIC, **AUTO})
    name, before = free_address(), holdings()
    target = spawn(serve)
    assert target.ask(["initialize", name, FABRIC]) == hixl.SUCCESS
    there, _ = target.ask(["malloc", MIB, 2])
    ops = [Op(ours.address, there, MIB)]
    assert ours.engine.transfer_sync(name, hixl.READ, ops, 5000) == hixl.SUCCESS
    assert zlib.crc32(ours.bytes) == zlib.crc32(pattern(2, MIB))
    target.kill()
    assert ours.engine.transfer_sync(name, hixl.READ, ops) == hixl.FAILED
    assert not mappings(holdings() - before)
    assert ours.engine._session.connections.connected() == []
    assert ours.engine.deregister_mem(ours.handle) == hixl.SUCCESS
