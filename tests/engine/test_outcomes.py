"""Timeouts, cancelling, disconnecting: what is promised about bytes that may still land.

A held copy engine stands for one that the scheduler, a debugger or a fault keeps from moving on: it
waits inside the chunk (1 MiB) that it has begun.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import kvferry as kf
from kvferry import Status, _core
from kvferry.memory import resolve
from kvferry.testing.under_test import in_sight

from .conftest import BEGUN, MIB, Pair


@pytest.fixture
def held(pair: Pair) -> Iterator[Pair]:
    pair.here()[:] = 7
    pair.ours._copies.hold(True)
    yield pair
    pair.ours._copies.hold(False)


def until(true: Callable[[], bool]) -> None:
    """Wait for what another thread is about to do."""
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def begun(pair: Pair, length: int, offset: int = 0, engines: int = 1) -> kf.Transfer:
    """A write whose first chunk a held copy engine has begun."""
    transfer = pair.peer.write_async(pair.batch(length, offset))
    until(lambda: pair.ours._copies.held == engines)
    return transfer


def test_a_timeout_that_becomes_quiet_leaves_no_late_write(held: Pair) -> None:
    errors: list[BaseException] = []
    aborting = threading.Event()
    real = held.peer._ways[0].abort

    def abort(done: object) -> None:
        real(done)
        aborting.set()

    held.peer._ways[0].abort = abort
    transfer = begun(held, 8 * MIB)

    def wait() -> None:
        try:
            transfer.wait(0.01)
        except kf.Timeout as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert aborting.wait(10)
    held.ours._copies.hold(False)
    thread.join()
    (error,) = errors
    assert type(error) is kf.Timeout
    assert (error.cause, error.bytes_moved) == ("timeout", None)
    after = held.there().copy()
    if BEGUN:
        assert after[0] == 7, "the chunk that had begun was finished"
        assert not after[BEGUN : 8 * MIB].any(), "no other chunk was begun after the abort"
    assert not after[8 * MIB :].any()
    held.ours._copies.stop()  # every copy engine has ended: nothing can land any more
    assert np.array_equal(after, held.there())


def test_a_held_copy_raises_not_quiet_and_the_late_write_is_announced(held: Pair) -> None:
    with pytest.raises(kf.NotQuiet) as caught:
        begun(held, 8 * MIB).wait(0.01)
    assert not held.there().any(), "held: nothing landed yet"
    assert not caught.value.wait_quiet(0.01)
    assert not caught.value.safe_to_retry
    with pytest.raises(kf.ClosedError) as refused:
        held.peer.write(held.batch(MIB))
    assert refused.value.cause == "not_quiet"
    held.ours._copies.hold(False)
    assert caught.value.wait_quiet(10)
    after = held.there().copy()
    if BEGUN:
        assert after[:BEGUN].all(), "it landed after the timeout, as NotQuiet said it may"
        assert not after[BEGUN:].any()
    again = held.ours.connect(held.theirs.addresses[0], path="fabric/host", streams=1)
    assert again is not held.peer
    again.write(kf.Batch.of(held.pool, again.regions["kv"]))


def test_not_quiet_keeps_the_callers_buffer(held: Pair) -> None:
    buffer = np.full(4 * MIB, 9, np.uint8)
    transfer = held.peer.read_async(kf.Batch.of(buffer, held.peer.regions["kv"]))
    until(lambda: held.ours._copies.held == 1)
    with pytest.raises(kf.NotQuiet) as caught:
        transfer.wait(0.01)
    view = memoryview(buffer)
    del buffer, transfer  # the transfer holds it until it is quiet
    held.ours._copies.hold(False)
    assert caught.value.wait_quiet(10)
    if BEGUN:
        assert view[0] == 0
        assert view[2 * BEGUN] == 9


def test_closing_with_a_held_copy_is_not_quiet_and_ends_well_later(held: Pair) -> None:
    transfer = begun(held, 4 * MIB)
    with pytest.raises(kf.NotQuiet) as caught:
        held.peer.close()
    held.ours._copies.hold(False)
    assert caught.value.wait_quiet(10)
    with pytest.raises(kf.ClosedError):
        transfer.wait()
    assert transfer.status is Status.FAILED


def test_cancel_is_not_an_outcome_until_quiet(held: Pair) -> None:
    begun_ones = [begun(held, 4 * MIB), begun(held, 4 * MIB, 4 * MIB, engines=2)]
    queued = held.peer.write_async(held.batch(MIB, 9 * MIB))
    for transfer in (*begun_ones, queued):
        transfer.cancel()
        assert transfer.status is Status.PENDING
    held.ours._copies.hold(False)
    for transfer in (*begun_ones, queued):
        with pytest.raises(kf.Cancelled):
            transfer.wait(10)
        assert transfer.status is Status.FAILED
    there = held.there()
    if BEGUN:
        assert there[:BEGUN].all()
        assert not there[BEGUN : 4 * MIB].any()
        assert not there[9 * MIB :].any(), "what had not begun was dropped"


def test_cancel_never_alters_a_finished_outcome(pair: Pair) -> None:
    transfer = pair.peer.write_async(pair.batch(MIB))
    transfer.wait(10)
    transfer.cancel()
    assert transfer.status is Status.DONE
    assert transfer.wait().bytes == MIB


def test_an_inline_copy_stops_at_its_deadline(inline_pair: Pair) -> None:
    inline_pair.here()[:] = 7
    with pytest.raises(kf.Timeout) as caught:
        inline_pair.peer.write(inline_pair.batch(16 * MIB), timeout=0)
    assert caught.value.cause == "timeout"
    assert not inline_pair.there().any(), "the deadline had passed before the first chunk"
    inline_pair.peer.write(inline_pair.batch(16 * MIB), timeout=10)
    assert inline_pair.there().all()


def test_disconnect_waits_for_no_transfer(pair: Pair) -> None:
    pair.here()[:] = 7
    pair.ours._copies.hold(True)
    transfers = [pair.peer.write_async(pair.batch(16 * MIB)) for _ in range(4)]
    closer = threading.Thread(target=pair.peer.close)
    closer.start()
    until(lambda: all(transfer.why is not None for transfer in transfers))
    pair.ours._copies.hold(False)
    closer.join()
    for transfer in transfers:
        with pytest.raises(kf.ClosedError) as caught:
            transfer.wait()
        assert (caught.value.cause, caught.value.bytes_moved) == ("closed", None)
    if BEGUN:
        assert not pair.there()[2 * BEGUN :].any(), "at most the begun chunks were written"
    with pytest.raises(kf.ClosedError):
        pair.peer.write(pair.batch(4096))


def test_disconnect_while_many_threads_submit(pair: Pair) -> None:
    batch = pair.batch(256 << 10)
    failures: list[BaseException] = []
    counts = [0] * 8

    def submit(number: int) -> None:
        try:
            while True:
                pair.peer.write(batch, timeout=10)
                counts[number] += 1
        except kf.ClosedError:
            pass
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: sum(counts) > 100)
    pair.peer.close()
    for thread in threads:
        thread.join()
    assert not failures
    assert pair.peer.stats[pair.peer.path].transfers.count == sum(counts)


def test_a_dropped_transfer_still_happens(pair: Pair) -> None:
    pair.here()[:] = 7
    pair.peer.write_async(pair.batch(16 * MIB))
    pair.peer.write(pair.batch(4096))
    until(lambda: bool(pair.there().all()))


def test_an_unobserved_failure_is_logged_once(held: Pair, caplog: pytest.LogCaptureFixture) -> None:
    begun(held, 4 * MIB).cancel()
    held.ours._copies.hold(False)
    held.peer.close()
    warnings = [record for record in caplog.records if "nobody looked" in record.message]
    assert len(warnings) == 1


def test_slots_of_dropped_transfers_come_back(pair: Pair) -> None:
    batch = pair.batch(128 << 10)
    for _ in range(2000):  # more than there are streams
        pair.peer.write_async(batch)
        if len(pair.peer._flying) > 200:
            pair.peer.write(batch)
    pair.peer.write(batch)
    until(lambda: all(transfer.done.quiet for transfer in list(pair.peer._flying)))
    pair.peer.settle_quiet_ones()
    assert not pair.peer._flying
    assert pair.peer.stats[pair.peer.path].transfers.count > 2000


def test_transfers_that_nobody_waits_for_do_not_use_up_the_slots(pair: Pair) -> None:
    pair.slots._limit = 8
    for _ in range(20):
        transfer = pair.peer.write_async(pair.batch(256 << 10))
        until(lambda transfer=transfer: transfer.done.quiet)
    assert pair.peer.stats[pair.peer.path].transfers.count >= 12


def test_a_restless_channel_is_kept_when_it_is_replaced(held: Pair) -> None:
    buffer = np.full(4 * MIB, 9, np.uint8)
    transfer = held.peer.write_async(kf.Batch.of(buffer, held.peer.regions["kv"]))
    until(lambda: held.ours._copies.held == 1)
    with pytest.raises(kf.NotQuiet):
        transfer.wait(0.01)
    alive = weakref.ref(held.peer)
    held.ours.connect(held.theirs.addresses[0], path="fabric/host", streams=1, inline_below=0)
    del transfer, buffer
    held = held._replace(peer=None)  # type: ignore[arg-type]
    gc.collect()
    assert alive() is not None
    assert held.ours._copies.held == 1
    held.ours._copies.hold(False)


class DawdlingGate:
    """Lets a submission in, and keeps it before it is in the books."""

    def __init__(self, gate: object) -> None:
        self._gate = gate
        self.admitted, self.go_on = threading.Event(), threading.Event()

    def admit(self, *arguments: object) -> object:
        transfer = self._gate.admit(*arguments)
        self.admitted.set()
        assert self.go_on.wait(10)
        return transfer

    def __getattr__(self, name: str) -> object:
        return getattr(self._gate, name)


@pytest.mark.parametrize("side", ["local", "remote"])
def test_a_region_is_not_unmapped_under_a_submitter(pair: Pair, side: str) -> None:
    """Between the check of a batch and its entry in the books, its regions are held already."""
    gate = pair.peer._gate = DawdlingGate(pair.peer._gate)
    pair.here()[:] = 7
    writer = threading.Thread(target=pair.peer.write, args=(pair.batch(MIB),))
    writer.start()
    assert gate.admitted.wait(10)
    engine, region = (pair.ours, pair.pool) if side == "local" else (pair.theirs, pair.far)
    view = pair.there()
    remover = threading.Thread(target=engine.unregister, args=(region,))
    remover.start()
    remover.join(0.05)
    assert remover.is_alive()
    gate.go_on.set()
    writer.join(10)
    remover.join(10)
    if in_sight() or engine is pair.ours:  # who only copies cannot look any more
        assert view[:MIB].all()


def test_memory_that_a_copy_still_uses_is_not_freed_with_its_engine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = kf.Engine()
    region, other = engine.allocate("kv", MIB), engine.allocate("other", MIB)
    batch = kf.Batch.absolute(region.address, region.address, 1)
    nobody = _core.SpanTable()
    nobody.add(_core.Span(region.address, MIB, region.address, True))
    found = resolve(_core.WRITE, batch, engine._own.spans, nobody, "a peer")
    assert found.holds(region.span)
    engine.close()
    assert "is still used by a copy" in caplog.text
    assert other.allocation.closed
    assert not region.allocation.closed
    assert region.span.drain(_core.now()) is False
    del found
    engine._own.free(region)
