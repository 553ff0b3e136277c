"""Inline and host submitters on real copy engines: cuts, counters, abort."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from kvferry import _core
from kvferry.errors import Full, Timeout
from kvferry.runtime import HostRuntime, HostStream
from kvferry.submit import HostSubmitter, InlineSubmitter, Slot, SlotPool, Submitter
from tests.submit.copies import Copy

MIB = 1 << 20
PATIENCE = 20_000_000_000


@pytest.fixture
def engines() -> Iterator[_core.CopyEngines]:
    engines = _core.CopyEngines(2)
    yield engines
    engines.hold(False)
    engines.stop()


Make = Callable[..., HostSubmitter]


@pytest.fixture
def host(engines: _core.CopyEngines) -> Make:
    def make(streams: int, inline_below: int = 0, limit: int = 512) -> HostSubmitter:
        pool = SlotPool(HostRuntime(engines).stream, limit=limit)
        return HostSubmitter(engines, pool, streams=streams, inline_below=inline_below)

    return make


def start(submitter: Submitter, copy: Copy, done: _core.Done) -> Slot | None:
    """Submit, and do something else."""
    lent = submitter.submit(_core.WRITE, copy.d, done, None)
    submitter.wake()
    return lent


def run(submitter: Submitter, engines: _core.CopyEngines, copy: Copy) -> _core.Done:
    done = _core.Done(engines)
    lent = start(submitter, copy, done)
    assert done.wait(_core.now() + PATIENCE)
    if lent is not None:
        submitter.release(lent, done.outcome != _core.OK)
    return done


@pytest.mark.parametrize("streams", [1, 2, 3, 8])
@pytest.mark.parametrize(("count", "block"), [(1, 1), (1, 5), (3, 4096), (64, 5000), (7, MIB)])
def test_one_run_a_stream(
    engines: _core.CopyEngines, host: Make, streams: int, count: int, block: int
) -> None:
    submitter, copy = host(streams), Copy.of(count, block)
    sizes = [each.bytes for each in copy.d.cut(streams)]
    for _ in range(3):
        copy.target[:] = 0
        done = run(submitter, engines, copy)
        assert done.outcome == _core.OK
        assert copy.arrived
        assert (done.inline_copies, done.stream_submissions) == (0, len(sizes))
    assert engines.bytes == 3 * count * block
    assert sum(sizes) == count * block
    assert len(sizes) == min(streams, -(-count * block // 4096))
    assert max(sizes) - min(sizes[:-1], default=max(sizes)) == 0


@pytest.mark.parametrize("below", [0, 1, 4096, 4097, 1 << 40])
def test_small_batches_are_copied_by_their_caller(
    engines: _core.CopyEngines, host: Make, below: int
) -> None:
    copy = Copy.of(2, 2048)
    done = run(host(2, inline_below=below), engines, copy)
    assert copy.arrived
    inline = below > 4096
    assert (done.inline_copies, done.stream_submissions > 0) == (int(inline), not inline)
    assert (engines.bytes == 0) == inline


def test_an_empty_batch_needs_no_stream(engines: _core.CopyEngines, host: Make) -> None:
    submitter = host(8, limit=8)
    run(submitter, engines, Copy.of(16, 4096))  # its streams are idle now
    nothing = _core.Descriptors(np.zeros((0, 3), np.uint64))
    done = _core.Done(engines)
    assert submitter.submit(_core.WRITE, nothing, done, None) is None
    assert (done.quiet, done.outcome, done.stream_submissions) == (True, _core.OK, 0)
    assert run(submitter, engines, Copy.of(16, 4096)).outcome == _core.OK


def test_inline_is_over_when_submit_returns(engines: _core.CopyEngines) -> None:
    copy, done = Copy.of(5, MIB), _core.Done(engines)
    submitter = InlineSubmitter(engines)
    assert submitter.submit(_core.WRITE, copy.d, done, None) is None  # type: ignore[func-returns-value]
    assert (done.quiet, done.outcome, copy.arrived) == (True, _core.OK, True)
    assert (done.inline_copies, done.stream_submissions, engines.bytes) == (1, 0, 0)


@pytest.mark.parametrize("inline", [True, False])
def test_a_deadline_stops_copies_of_the_caller(
    engines: _core.CopyEngines, host: Make, inline: bool
) -> None:
    submitter = InlineSubmitter(engines) if inline else host(2, inline_below=1 << 40)
    copy, done = Copy.of(5, MIB), _core.Done(engines)
    submitter.submit(_core.WRITE, copy.d, done, _core.now())
    assert (done.quiet, done.outcome) == (True, _core.EXPIRED)
    assert not copy.target.any()


def test_full_starts_nothing(engines: _core.CopyEngines, host: Make) -> None:
    submitter, copy = host(4, limit=6), Copy.of(4, MIB)
    engines.hold(True)
    first, second = _core.Done(engines), _core.Done(engines)
    lent = start(submitter, copy, first)
    assert lent is not None
    other = Copy.of(4, MIB)
    with pytest.raises(Full):
        start(submitter, other, second)
    assert second.stream_submissions == 0
    engines.hold(False)
    assert first.wait(_core.now() + PATIENCE)
    submitter.release(lent, False)
    assert copy.arrived
    assert not other.target.any()
    assert run(submitter, engines, other).outcome == _core.OK
    assert other.arrived


def chunks(target: np.ndarray) -> list[int]:
    """Which chunks of 1 MiB were written; each is whole or untouched."""
    parts = target.reshape(-1, MIB)
    written = [index for index, part in enumerate(parts) if part.any()]
    assert all(parts[index].all() for index in written)
    return written


def until(holds: Callable[[], bool]) -> None:
    deadline = _core.now() + PATIENCE
    while not holds():
        assert _core.now() < deadline
        time.sleep(0.0005)


@pytest.mark.parametrize("streams", [1, 2, 4])
def test_aborted_while_engines_are_in_a_chunk(
    engines: _core.CopyEngines, host: Make, streams: int
) -> None:
    """Not quiet before those chunks are written; nothing behind them, and nothing that had not
    begun, is ever written."""
    submitter, copy, done = host(streams), Copy.of(1, 8 * MIB), _core.Done(engines)
    engines.hold(True)
    lent = start(submitter, copy, done)
    assert lent is not None
    begun = min(streams, 2)
    until(lambda: engines.held == begun)
    done.abort()
    assert not done.wait(_core.now() + 20_000_000)
    assert not done.quiet
    assert not copy.target.any()
    engines.hold(False)
    assert done.wait(_core.now() + PATIENCE)
    assert done.outcome == _core.ABORTED
    assert chunks(copy.target) == [index * 8 // streams for index in range(begun)]
    assert engines.bytes == 0
    submitter.release(lent, True)


def test_a_waiter_helps_with_what_no_engine_has_begun(
    engines: _core.CopyEngines, host: Make
) -> None:
    submitter, copy, done = host(4), Copy.of(1, 8 * MIB), _core.Done(engines)
    engines.hold(True)
    lent = start(submitter, copy, done)
    assert lent is not None
    until(lambda: engines.held == 2)
    submitter.help(lent, done, None)
    assert not done.quiet
    assert chunks(copy.target) == [4, 5, 6, 7]
    engines.hold(False)
    assert done.wait(_core.now() + PATIENCE)
    assert (done.outcome, copy.arrived) == (_core.OK, True)
    submitter.release(lent, False)


def test_a_waiter_alone_is_enough(engines: _core.CopyEngines, host: Make) -> None:
    """Nobody wakes an engine for the last run: who submits either waits or wakes."""
    submitter, copy = host(1), Copy.of(16, 4096)
    for _ in range(50):
        copy.target[:] = 0
        done = _core.Done(engines)
        lent = submitter.submit(_core.WRITE, copy.d, done, None)
        assert lent is not None
        submitter.help(lent, done, None)
        assert done.wait(_core.now() + PATIENCE)
        submitter.release(lent, False)
        assert copy.arrived


def test_a_late_helper_does_not_touch_the_next_transfer_on_its_slot(
    engines: _core.CopyEngines, host: Make
) -> None:
    """Of two threads that wait for one transfer, one may come to help when the other has given the
    slot back and it is lent to somebody else, whose deadline is another."""
    submitter, first = host(1, limit=3), Copy.of(1, 8 * MIB)
    done = _core.Done(engines)
    late = start(submitter, first, done)
    assert late is not None
    assert done.wait(_core.now() + PATIENCE)
    engines.hold(True)
    busy = [(Copy.of(1, MIB), _core.Done(engines)) for _ in range(2)]
    slots = [start(submitter, copy, line) for copy, line in busy]
    until(lambda: engines.held == 2)
    submitter.release(late, False)
    other, line = Copy.of(1, 8 * MIB), _core.Done(engines)
    lent = start(submitter, other, line)
    assert lent == late
    submitter.help(late, done, _core.now())
    engines.hold(False)
    assert line.wait(_core.now() + PATIENCE)
    outcome = line.outcome
    for slot, (_, each) in zip(slots, busy, strict=True):
        assert slot is not None
        assert each.wait(_core.now() + PATIENCE)
        submitter.release(slot, False)
    submitter.release(lent, outcome != _core.OK)
    assert (outcome, other.arrived) == (_core.OK, True)


def test_streams_of_a_failed_transfer_are_not_used_again(
    engines: _core.CopyEngines, host: Make
) -> None:
    submitter, copy = host(2, limit=2), Copy.of(4, MIB)
    for _ in range(4):
        done = _core.Done(engines)
        done.abort()
        lent = start(submitter, copy, done)
        assert lent is not None
        assert done.wait(_core.now() + PATIENCE)
        assert done.outcome == _core.ABORTED
        submitter.release(lent, True)
        fresh = _core.Done(engines)
        again = start(submitter, copy, fresh)
        assert again is not None
        assert not set(map(id, again)) & set(map(id, lent))
        assert fresh.wait(_core.now() + PATIENCE)
        assert fresh.outcome == _core.OK
        submitter.release(again, False)
    assert copy.arrived


class Interrupted(HostStream):
    """A signal comes in when this flag is just enqueued, or just not yet."""

    def __init__(self, engines: _core.CopyEngines, calls: list[int], at: int, after: bool) -> None:
        super().__init__(engines)
        self._calls, self._at, self._after = calls, at, after

    def flag(self, done: _core.Done, word: int, wake: bool = True) -> None:
        self._calls.append(word)
        now = len(self._calls) == self._at
        if not now or self._after:
            super().flag(done, word, wake)
        if now:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("at", "streams"), [(1, 1), (1, 3), (2, 3), (3, 3)])
def test_interrupted_while_submitting_it_becomes_quiet(
    engines: _core.CopyEngines, at: int, streams: int, after: bool
) -> None:
    calls: list[int] = []
    pool = SlotPool(lambda: Interrupted(engines, calls, at, after))
    pool.give(pool.take(streams))
    submitter = HostSubmitter(engines, pool, streams=streams, inline_below=0)
    time.sleep(0.01)  # the copy engines sleep by now, or else the test shows less
    copy, done = Copy.of(3, MIB), _core.Done(engines)
    with pytest.raises(KeyboardInterrupt):
        submitter.submit(_core.WRITE, copy.d, done, None)
    done.forsake()
    submitter.wake()
    assert done.wait(_core.now() + PATIENCE)
    settled = copy.target.copy()
    assert run(submitter, engines, other := Copy.of(3, MIB)).outcome == _core.OK
    assert other.arrived
    assert np.array_equal(copy.target, settled)


# ---- waiting for a slot ----


def busy(
    submitter: HostSubmitter, engines: _core.CopyEngines
) -> tuple[Slot | None, Copy, _core.Done]:
    """A transfer that holds all streams there are."""
    engines.hold(True)
    copy, done = Copy.of(1, MIB), _core.Done(engines)
    return start(submitter, copy, done), copy, done


def test_a_patient_caller_waits_for_a_slot(engines: _core.CopyEngines, host: Make) -> None:
    submitter = host(2, limit=2)
    lent, copy, done = busy(submitter, engines)
    other, line, slots = Copy.of(1, MIB), _core.Done(engines), []
    waiter = threading.Thread(
        target=lambda: slots.append(submitter.submit(_core.WRITE, other.d, line, None, True))
    )
    waiter.start()
    engines.hold(False)
    assert done.wait(_core.now() + PATIENCE)
    assert lent is not None
    submitter.release(lent, False)
    waiter.join()
    submitter.wake()
    assert line.wait(_core.now() + PATIENCE)
    assert slots[0] is not None
    submitter.release(slots[0], False)
    assert copy.arrived
    assert other.arrived


def test_its_deadline_passes(engines: _core.CopyEngines, host: Make) -> None:
    submitter = host(2, limit=2)
    lent, _, done = busy(submitter, engines)
    other, line = Copy.of(1, MIB), _core.Done(engines)
    with pytest.raises(Timeout) as caught:
        submitter.submit(_core.WRITE, other.d, line, _core.now() + 5_000_000, True)
    assert (caught.value.cause, line.stream_submissions) == ("no_slot", 0)
    engines.hold(False)
    assert done.wait(_core.now() + PATIENCE)
    assert lent is not None
    submitter.release(lent, False)
    assert not other.target.any()


def test_aborted_while_it_waits_it_is_over(engines: _core.CopyEngines, host: Make) -> None:
    submitter = host(2, limit=2)
    lent, _, done = busy(submitter, engines)
    other, line, slots = Copy.of(1, MIB), _core.Done(engines), []
    waiter = threading.Thread(
        target=lambda: slots.append(submitter.submit(_core.WRITE, other.d, line, None, True))
    )
    waiter.start()
    submitter.abort(line)
    waiter.join(20)
    assert (slots, line.quiet, line.outcome) == ([None], True, _core.ABORTED)
    engines.hold(False)
    assert done.wait(_core.now() + PATIENCE)
    assert lent is not None
    submitter.release(lent, False)
    assert not other.target.any()
