"""Transfers under asyncio."""

from __future__ import annotations

import asyncio
import threading

import pytest

import kvferry as kf

from .conftest import BEGUN, MIB, Pair


def test_await_returns_the_report_and_does_not_block_the_loop(pair: Pair) -> None:
    pair.here()[:] = 7

    async def main() -> tuple[kf.Report, int]:
        pair.ours._copies.hold(True)
        task = asyncio.ensure_future(waiting(pair.peer.write_async(pair.batch(16 * MIB))))
        turns = 0
        while turns < 100:  # the loop turns while the copy is held
            await asyncio.sleep(0)
            turns += 1
        assert not task.done()
        pair.ours._copies.hold(False)
        return await task, turns

    report, _ = asyncio.run(main())
    assert report.bytes == 16 * MIB
    assert pair.there().all()


async def waiting(transfer: kf.Transfer) -> kf.Report:
    return await transfer


def test_many_transfers_at_once_in_several_loops(pair: Pair) -> None:
    async def main() -> int:
        transfers = [pair.peer.write_async(pair.batch(64 << 10)) for _ in range(100)]
        reports = await asyncio.gather(*map(waiting, transfers))
        return sum(report.bytes for report in reports)

    totals = []
    threads = [threading.Thread(target=lambda: totals.append(asyncio.run(main()))) for _ in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [100 * (64 << 10)] * 3
    for _ in range(5):  # a closed loop's bell serves the next
        assert asyncio.run(main()) == 100 * (64 << 10)
    assert len(pair.ours._bells._bells) <= 3


def test_cancelling_an_await_cancels_the_transfer_and_ends_after_quiet(pair: Pair) -> None:
    pair.here()[:] = 7

    async def main() -> kf.Transfer:
        pair.ours._copies.hold(True)
        transfer = pair.peer.write_async(pair.batch(16 * MIB))
        task = asyncio.ensure_future(waiting(transfer))
        await asyncio.sleep(0)  # it has begun to wait
        while pair.ours._copies.held < 1:  # a run that nobody has begun is quiet at once
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done(), "shielded until quiet"
        pair.ours._copies.hold(False)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transfer.done.quiet
        return transfer

    transfer = asyncio.run(main())
    assert transfer.status is kf.Status.FAILED
    with pytest.raises(kf.Cancelled):
        transfer.wait()
    if BEGUN:
        assert not pair.there()[2 * BEGUN :].any()


def test_a_failure_is_raised_by_await(pair: Pair) -> None:
    async def main() -> None:
        pair.ours._copies.hold(True)
        transfer = pair.peer.write_async(pair.batch(4 * MIB))
        transfer.cancel()
        pair.ours._copies.hold(False)
        await transfer

    with pytest.raises(kf.Cancelled):
        asyncio.run(main())


def test_one_transfer_awaited_in_two_loops(pair: Pair) -> None:
    pair.ours._copies.hold(True)
    transfer = pair.peer.write_async(pair.batch(4 * MIB))
    found = []

    def run() -> None:
        found.append(asyncio.run(asyncio.wait_for(waiting(transfer), 10)).bytes)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    while sum(len(bell.waiting) for bell in list(pair.ours._bells._bells)) < 3:
        pass
    pair.ours._copies.hold(False)
    for thread in threads:
        thread.join(10)
    assert found == [4 * MIB] * 3


def test_closing_the_engine_ends_an_await(pair: Pair) -> None:
    async def main() -> None:
        pair.ours._copies.hold(True)
        task = asyncio.ensure_future(waiting(pair.peer.write_async(pair.batch(4 * MIB))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        closer = asyncio.get_running_loop().run_in_executor(None, pair.ours.close)
        await asyncio.sleep(0)
        pair.ours._copies.hold(False)
        with pytest.raises((kf.ClosedError, kf.NotQuiet)):
            await asyncio.wait_for(task, 10)
        await closer

    asyncio.run(main())


def test_a_cancelled_await_is_not_a_failure_nobody_looked_at(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        pair.ours._copies.hold(True)
        task = asyncio.ensure_future(waiting(pair.peer.write_async(pair.batch(4 * MIB))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        pair.ours._copies.hold(False)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    pair.peer.close()
    assert not [record for record in caplog.records if "nobody looked" in record.message]
