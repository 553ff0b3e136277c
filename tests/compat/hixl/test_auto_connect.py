"""AutoConnect: channels come with the first transfer, and go with a failure."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable

import hixl

from kvferry.testing import Child

from .conftest import AUTO, MIB, MakeSide, free_address
from .peer import pattern, serve


def connected(engine: hixl.Hixl) -> list[str]:
    return list(engine._session.connections._channels)


def test_a_peer_dies_and_its_successor_is_found(
    spawn: Callable[..., Child], side: MakeSide
) -> None:
    name = free_address()
    ours = side(AUTO)
    ours.bytes[:] = pattern(1, MIB)
    for life in range(2):
        target = spawn(serve)
        assert target.ask(["initialize", name, {}]) == hixl.SUCCESS
        there, _ = target.ask(["malloc", MIB, 2])
        ops = [hixl.TransferOpDesc(ours.address, there, MIB)]
        assert ours.engine.transfer_sync(name, hixl.WRITE, ops, 5000) == hixl.SUCCESS, life
        assert target.ask(["digest", there, MIB]) == zlib.crc32(pattern(1, MIB))
        assert connected(ours.engine) == [name]
        target.kill()
        assert ours.engine.transfer_sync(name, hixl.WRITE, ops) == hixl.FAILED
        assert connected(ours.engine) == []


def test_a_transfer_that_fails_drops_the_channel(side: MakeSide) -> None:
    ours, theirs = side(AUTO, 16 * MIB), side(AUTO, 16 * MIB)
    ops = [hixl.TransferOpDesc(ours.address, theirs.address, 16 * MIB)]
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.SUCCESS
    channel = ours.engine._session.connections.get(theirs.name)
    late = channel.write
    channel.write = lambda batch, timeout: late(batch, 0.0)
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops) == hixl.TIMEOUT
    assert channel.closed
    assert connected(ours.engine) == []
    ours.bytes[:] = 4
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops, 5000) == hixl.SUCCESS
    assert (theirs.bytes == 4).all()


def test_an_async_failure_drops_the_channel_when_it_is_told(side: MakeSide) -> None:
    ours, theirs = side(AUTO, 16 * MIB), side(AUTO, 16 * MIB)
    ops = [hixl.TransferOpDesc(ours.address, theirs.address, 16 * MIB)]
    copies = ours.engine._session.engine.copy_engines
    copies.hold(True)
    status, request = ours.engine.transfer_async(theirs.name, hixl.WRITE, ops)
    assert status == hixl.SUCCESS
    for transfer in ours.engine._session.transfers._requests.get(request).transfers:
        transfer.cancel()
    copies.hold(False)
    deadline = time.monotonic() + 10
    while (told := ours.engine.get_transfer_status(request))[1] is hixl.TransferStatus.WAITING:
        assert time.monotonic() < deadline
    assert told == (hixl.SUCCESS, hixl.TransferStatus.FAILED)
    assert connected(ours.engine) == []


def test_a_wrong_call_drops_nothing(side: MakeSide) -> None:
    ours, theirs = side(AUTO), side(AUTO)
    wrong = [hixl.TransferOpDesc(ours.address, 4096, 8)]
    assert ours.engine.transfer_sync(theirs.name, hixl.WRITE, wrong) == hixl.PARAM_INVALID
    assert connected(ours.engine) == [theirs.name]


def test_many_first_transfers_share_a_channel(side: MakeSide) -> None:
    ours, theirs = side(AUTO), side(AUTO)
    found: list[int] = []

    def work(n: int) -> None:
        ops = [hixl.TransferOpDesc(ours.address + n, theirs.address + n, 1)]
        found.append(ours.engine.transfer_sync(theirs.name, hixl.WRITE, ops, 5000))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [hixl.SUCCESS] * 8
    assert connected(ours.engine) == [theirs.name]


def test_nobody_there_is_a_failure(side: MakeSide) -> None:
    ours = side(AUTO)
    ops = [hixl.TransferOpDesc(ours.address, 4096, 8)]
    assert ours.engine.transfer_sync(free_address(), hixl.WRITE, ops) == hixl.FAILED
