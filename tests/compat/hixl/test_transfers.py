"""Reading and writing between two processes, and what may be asked of a transfer."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator

import hixl
import numpy as np
import pytest

import kvferry as kf
from kvferry.testing import Child, spawn

from .conftest import DIRECT, FABRIC, MIB, MakeSide, Side, Start, bytes_at, free_address
from .peer import pattern, serve

HOST_UNFOLD = {
    **FABRIC,
    hixl.OPTION_GLOBAL_RESOURCE_CONFIG: json.dumps(
        {
            "fabric_memory": {"enable_aicpu_unfold": False, "task_stream_num": 2},
            "transfer_config.max_transfer_count_per_batch": 3,
        }
    ),
}
UNFOLD = {
    **FABRIC,
    hixl.OPTION_GLOBAL_RESOURCE_CONFIG: json.dumps(
        {"transfer_config.max_transfer_count_per_batch": 3}
    ),
}
Op = hixl.TransferOpDesc


def finish(engine: hixl.Hixl, request: int) -> hixl.TransferStatus:
    """Ask until it is over."""
    while True:
        status, where = engine.get_transfer_status(request)
        assert status == hixl.SUCCESS
        if where is not hixl.TransferStatus.WAITING:
            return where


@pytest.fixture(scope="module")
def process(_private_folders: object) -> Iterator[Child]:
    with spawn(serve) as child:
        yield child
        child.result()


@pytest.fixture
def target(process: Child) -> Iterator[Child]:
    """A process with an engine that is over after the test."""
    yield process
    process.ask(["finalize"])


@pytest.mark.parametrize("options", [DIRECT, UNFOLD, HOST_UNFOLD])
def test_two_processes_both_ways(target: Child, side: MakeSide, options: dict[str, str]) -> None:
    name = free_address()
    assert target.ask(["initialize", name, options]) == hixl.SUCCESS
    there, _ = target.ask(["malloc", MIB, 2])
    ours = side(options)
    ours.bytes[:] = pattern(1, MIB)
    assert ours.engine.connect(name) == hixl.SUCCESS
    block = 4096
    order = np.random.default_rng(3).permutation(MIB // block)
    ops = [Op(ours.address + int(i) * block, there + n * block, block) for n, i in enumerate(order)]
    assert ours.engine.transfer_sync(name, hixl.WRITE, ops, 5000) == hixl.SUCCESS
    moved = pattern(1, MIB).reshape(-1, block)[order].tobytes()
    assert target.ask(["digest", there, MIB]) == zlib.crc32(moved)
    ours.bytes[:] = 0
    status, request = ours.engine.transfer_async(name, hixl.READ, ops)
    assert status == hixl.SUCCESS
    assert finish(ours.engine, request) is hixl.TransferStatus.COMPLETED
    assert ours.engine.get_transfer_status(request) == (
        hixl.PARAM_INVALID,
        hixl.TransferStatus.FAILED,
    )
    assert np.array_equal(ours.bytes, pattern(1, MIB))
    assert ours.engine.disconnect(name) == hixl.SUCCESS


def test_a_peers_own_buffer_and_its_allocations_in_one_call(target: Child, side: MakeSide) -> None:
    name = free_address()
    assert target.ask(["initialize", name, {}]) == hixl.SUCCESS
    own, _ = target.ask(["malloc", MIB, 2])
    foreign, _ = target.ask(["foreign", MIB, 3])
    ours = side()
    assert ours.engine.connect(name) == hixl.SUCCESS
    half = MIB // 2
    ops = [Op(ours.address, own, half), Op(ours.address + half, foreign + 8, half)]
    assert ours.engine.transfer_sync(name, hixl.READ, ops, 5000) == hixl.SUCCESS
    expected = np.concatenate([pattern(2, MIB)[:half], pattern(3, MIB)[8 : half + 8]])
    assert np.array_equal(ours.bytes, expected)
    ours.bytes[:] = pattern(4, MIB)
    status, request = ours.engine.transfer_async(name, hixl.WRITE, ops)
    assert status == hixl.SUCCESS
    assert finish(ours.engine, request) is hixl.TransferStatus.COMPLETED
    assert target.ask(["digest", own, half]) == zlib.crc32(pattern(4, MIB)[:half])
    assert target.ask(["digest", foreign + 8, half]) == zlib.crc32(pattern(4, MIB)[half:])


def test_half_of_a_call_does_not_go_on_alone(side: MakeSide) -> None:
    """The first of two ways has taken its part, the second has no room."""
    ours, theirs = side(length=16 * MIB), side(length=16 * MIB)
    foreign = np.zeros(4096, np.uint8)
    desc = hixl.MemDesc(foreign.ctypes.data, 4096)
    assert theirs.engine.register_mem(desc, hixl.MEM_HOST)[0] == hixl.SUCCESS
    ours.engine.connect(theirs.name)
    channel = ours.engine._session.connections.get(theirs.name)
    begun: list[kf.Transfer] = []
    start = channel.write_async

    def once(batch: kf.Batch) -> kf.Transfer:
        if begun:
            raise kf.Full("no slot", cause="no_slot")
        begun.append(start(batch))
        return begun[0]

    channel.write_async = once
    ops = [Op(ours.address, theirs.address, 16 * MIB), Op(ours.address, desc.addr, 4096)]
    assert ours.engine.transfer_async(theirs.name, hixl.WRITE, ops) == (hixl.FAILED, 0)
    assert begun[0].status is not kf.Status.PENDING
    assert ours.engine.get_all_transfer_status() == (hixl.SUCCESS, [])


def test_descriptors_that_span_adjacent_ranges(start: Start) -> None:
    """Five ranges of 4 KiB here, four of 5 KiB there, and descriptors across all of them."""
    name = free_address()
    ours, theirs = start(), start(name)
    here, there = np.zeros(20 << 10, np.uint8), np.zeros(20 << 10, np.uint8)
    for engine, buffer, size in ((ours, here, 4096), (theirs, there, 5 << 10)):
        for offset in range(0, len(buffer), size):
            desc = hixl.MemDesc(buffer.ctypes.data + offset, size)
            assert engine.register_mem(desc, hixl.MEM_HOST)[0] == hixl.SUCCESS
    assert ours.connect(name) == hixl.SUCCESS
    here[:] = pattern(1, len(here))
    base, far = here.ctypes.data, there.ctypes.data
    ops = [
        Op(base, far + 100, 15000),
        Op(base + 15000, far + 15100, 10),
        Op(base + 19000, far, 100),
    ]
    assert ours.transfer_sync(name, hixl.WRITE, ops) == hixl.SUCCESS
    expected = np.zeros_like(there)
    expected[100:15100] = here[:15000]
    expected[15100:15110] = here[15000:15010]
    expected[:100] = here[19000:19100]
    assert np.array_equal(there, expected)
    ends = [Op(base + 19000, far, 2000), Op(base, far + 19000, 2000)]  # behind the last range
    for op in ends:
        assert ours.transfer_sync(name, hixl.WRITE, [op]) == hixl.PARAM_INVALID
    assert np.array_equal(there, expected)


def test_memory_that_the_peer_registers_after_the_connect(side: MakeSide) -> None:
    ours, theirs = side(), side()
    assert ours.engine.connect(theirs.name) == hixl.SUCCESS
    late = np.zeros(4096, np.uint8)
    ops = [Op(ours.address, late.ctypes.data, 4096)]
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.PARAM_INVALID
    theirs.engine.register_mem(hixl.MemDesc(late.ctypes.data, 4096), hixl.MEM_HOST)
    ours.bytes[:4096] = 9
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.SUCCESS
    assert (late == 9).all()


def test_an_announcement_that_has_not_come_is_not_waited_for(side: MakeSide) -> None:
    ours, theirs = side(), side()
    ours.engine.connect(theirs.name)
    native = theirs.engine._session.engine
    native._announce = lambda region: None
    _, address = theirs.engine.malloc_mem(hixl.MEM_HOST, 4096)
    ours.bytes[:] = 5
    ops = [Op(ours.address, theirs.address, MIB), Op(ours.address, address, 4096)]
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.SUCCESS
    assert (theirs.bytes == 5).all()
    assert (bytes_at(address, 4096) == 5).all()


def test_a_peer_that_stands_still_is_not_asked_for_longer_than_the_call_may_take(
    target: Child, side: MakeSide
) -> None:
    ours, name = side(), free_address()
    assert target.ask(["initialize", name, {}]) == hixl.SUCCESS
    assert ours.engine.connect(name) == hixl.SUCCESS
    unheard_of = [Op(ours.address, 4096, 8)]
    target.stop()
    begun = time.monotonic()
    assert ours.engine.transfer_sync(name, hixl.WRITE, unheard_of, 100) == hixl.TIMEOUT
    assert ours.engine.transfer_async(name, hixl.WRITE, unheard_of)[0] == hixl.TIMEOUT
    assert time.monotonic() - begun < 6
    target.resume()
    assert ours.engine.transfer_sync(name, hixl.WRITE, unheard_of) == hixl.PARAM_INVALID


def test_a_buffer_is_a_local_side_under_fabric_mem_and_out_of_peers_reach(side: MakeSide) -> None:
    ours, theirs = side(FABRIC), side(FABRIC)
    buffer = pattern(1, MIB)
    desc = hixl.MemDesc(buffer.ctypes.data, MIB)
    assert ours.engine.register_mem(desc, hixl.MEM_HOST)[0] == hixl.SUCCESS
    assert ours.engine.connect(theirs.name) == theirs.engine.connect(ours.name) == hixl.SUCCESS
    out = [Op(buffer.ctypes.data, theirs.address, MIB)]
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, out) == hixl.SUCCESS
    assert np.array_equal(theirs.bytes, pattern(1, MIB))
    back = [Op(theirs.address, buffer.ctypes.data, MIB)]
    assert theirs.engine.transfer_sync(ours.name, hixl.WRITE, back) == hixl.PARAM_INVALID


@pytest.mark.parametrize("options", [DIRECT, FABRIC])
def test_an_engine_is_its_own_peer(side: MakeSide, options: dict[str, str]) -> None:
    ours = side(options)
    assert ours.engine.connect(ours.name) == hixl.SUCCESS
    ours.bytes[:4096] = 3
    ops = [Op(ours.address, ours.address + 8192, 4096)]
    assert ours.engine.transfer_sync(ours.name, hixl.WRITE, ops) == hixl.SUCCESS
    assert (ours.bytes[8192:12288] == 3).all()
    assert not ours.bytes[12288:].any()
    assert ours.engine.disconnect(ours.name) == hixl.SUCCESS


@pytest.fixture
def held(side: MakeSide) -> Iterator[tuple[Side, Side]]:
    """Two engines and a channel over fabric; copies stand still once they have begun a chunk."""
    ours, theirs = side(HOST_UNFOLD, 16 * MIB), side(HOST_UNFOLD, 16 * MIB)
    assert ours.engine.connect(theirs.name) == hixl.SUCCESS
    copies = ours.engine._session.engine.copy_engines
    copies.hold(True)
    yield ours, theirs
    copies.hold(False)


def whole(ours: Side, theirs: Side) -> list[hixl.TransferOpDesc]:
    return [Op(ours.address, theirs.address, ours.length)]


def test_a_disconnect_lets_requests_vanish(held: tuple[Side, Side]) -> None:
    ours, theirs = held
    status, request = ours.engine.transfer_async(theirs.name, hixl.WRITE, whole(ours, theirs))
    assert status == hixl.SUCCESS
    waiting = (hixl.SUCCESS, hixl.TransferStatus.WAITING)
    assert ours.engine.get_transfer_status(request) == waiting
    ours.engine._session.engine.copy_engines.hold(False)
    assert ours.engine.disconnect(theirs.name) == hixl.SUCCESS
    gone = (hixl.PARAM_INVALID, hixl.TransferStatus.FAILED)
    assert ours.engine.get_transfer_status(request) == gone
    after = theirs.bytes.copy()
    ours.engine.finalize()
    assert np.array_equal(after, theirs.bytes), "nothing lands after a disconnect"


def test_a_sync_transfer_that_takes_too_long_is_stopped(side: MakeSide) -> None:
    ours, theirs = side(length=64 * MIB), side(length=64 * MIB)
    ours.engine.connect(theirs.name)
    channel = ours.engine._session.connections.get(theirs.name)
    late = channel.write
    channel.write = lambda batch, timeout: late(batch, 0.0)
    status = ours.engine.transfer_sync(theirs.name, hixl.WRITE, whole(ours, theirs), 1)
    assert status == hixl.TIMEOUT
    del channel.write
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, whole(ours, theirs), 9000) == 0


def test_all_requests_at_once(side: MakeSide) -> None:
    ours, theirs = side(length=16 * MIB), side(length=16 * MIB)
    ours.engine.connect(theirs.name)
    copies = ours.engine._session.engine.copy_engines
    copies.hold(True)
    requests = []
    for mark in range(4):
        args = hixl.TransferArgs()
        args.user_data = mark
        ops = whole(ours, theirs)
        status, request = ours.engine.transfer_async(theirs.name, hixl.WRITE, ops, args)
        assert status == hixl.SUCCESS
        requests.append(request)
    ask = ours.engine.get_all_transfer_status
    status, results = ask(hixl.GetTransferStatusArgs(max_query_count=3))
    waiting = hixl.TransferStatus.WAITING
    assert status == hixl.SUCCESS
    assert [(each.req, each.user_data, each.status) for each in results] == [
        (request, mark, waiting) for mark, request in enumerate(requests[:3])
    ]
    assert ask(hixl.GetTransferStatusArgs(skip_waiting=True)) == (hixl.SUCCESS, [])
    copies.hold(False)
    found: list[hixl.TransferResult] = []
    while len(found) < 4:
        found += ask(hixl.GetTransferStatusArgs(max_query_count=2, skip_waiting=True))[1]
    assert {each.status for each in found} == {hixl.TransferStatus.COMPLETED}
    assert sorted(each.req for each in found) == requests
    assert ask() == (hixl.SUCCESS, [])


def test_all_requests_at_once_are_not_to_be_had_under_fabric_mem(start: Start) -> None:
    assert start(options=FABRIC).get_all_transfer_status() == (hixl.UNSUPPORTED, [])


def test_what_is_registered_nowhere_is_refused_before_anything_moves(
    side: MakeSide, said: Callable[[], str]
) -> None:
    ours, theirs = side(), side()
    ours.engine.connect(theirs.name)
    ours.bytes[:] = 1
    good = Op(ours.address, theirs.address, 4096)
    stray = np.zeros(4096, np.uint8).ctypes.data
    for bad in (
        Op(stray, theirs.address, 16),
        Op(ours.address, 4096, 16),
        Op(ours.address, theirs.address, 0),
        Op(ours.address, theirs.address + MIB - 10, 20),
        Op(ours.address, (1 << 64) - 8, 16),
        Op(ours.address, (1 << 64) - 16, 16),
        Op(ours.address, 0, 16),
    ):
        ops = [good, bad]
        assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.PARAM_INVALID
        assert ours.engine.transfer_async(theirs.name, hixl.WRITE, ops) == (hixl.PARAM_INVALID, 0)
    ends = [Op(ours.address, end, 1) for end in (0, (1 << 64) - 1)]
    for ops in ([], ends):
        assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.PARAM_INVALID
    assert not theirs.bytes.any()
    assert "descriptor 1: remote_addr 0x1000" in said()


def test_memory_that_was_allocated_and_not_registered_is_no_local_side(side: MakeSide) -> None:
    ours, theirs = side(), side()
    ours.engine.connect(theirs.name)
    _, address = ours.engine.malloc_mem(hixl.MEM_HOST, 4096)
    ops = [Op(address, theirs.address, 4096)]
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.PARAM_INVALID
    ours.engine.register_mem(hixl.MemDesc(address, 4096), hixl.MEM_HOST)
    bytes_at(address, 4096)[:] = 2
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.SUCCESS
    assert (theirs.bytes[:4096] == 2).all()
