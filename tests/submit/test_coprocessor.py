"""The coprocessor on real copy engines: unfolding, the ring, drops, aborts, a full ring."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import _core
from kvferry.errors import Full, Timeout
from kvferry.runtime import HostControlStream, StreamState
from kvferry.submit import CoprocessorSubmitter, Slot
from kvferry.testing import oracle
from tests.submit.copies import PATIENCE, Copy, finish, make, run, until

MIB = 1 << 20
ENTRIES = 64  # of a control ring


@pytest.fixture
def engines() -> Iterator[_core.CopyEngines]:
    engines = _core.CopyEngines(2)
    yield engines
    engines.hold(False)
    engines.stop()


# ---- what arrives ----


@pytest.mark.parametrize("most", [1, 7, 128, 1920])
@pytest.mark.parametrize("count", [0, 1, 1919, 1920, 1921, 2047, 2048, 2049, 10_000])
def test_every_size_arrives_in_logical_batches(
    engines: _core.CopyEngines, most: int, count: int
) -> None:
    submitter, copy = make(engines, most), Copy.of(count, 24)
    for _ in range(2):  # the second begins where the first left the ring
        copy.target[:] = 0
        done = run(submitter, engines, copy.d)
        assert copy.arrived
        assert done.coprocessor_batches == -(-count // most)
        assert (done.inline_copies, done.stream_submissions) == (0, 0)
    assert engines.bytes == 2 * count * 24


def test_adjacent_descriptors_become_one_record(engines: _core.CopyEngines) -> None:
    source, target = np.ones(3000, np.uint8), np.zeros(3000, np.uint8)
    at = np.arange(3000, dtype=np.uint64)
    rows = np.stack([source.ctypes.data + at, target.ctypes.data + at, np.ones_like(at)], axis=1)
    done = run(make(engines, 1), engines, _core.Descriptors(rows))
    assert done.coprocessor_batches == 1
    assert target.all()


def test_long_descriptors_become_chunks(engines: _core.CopyEngines) -> None:
    copy = Copy.of(1, 5 * MIB + 3)
    assert run(make(engines, 2), engines, copy.d).coprocessor_batches == 3
    assert copy.arrived


def test_the_same_for_reads(engines: _core.CopyEngines) -> None:
    copy = Copy.of(3000, 16)
    copy.target[:], copy.source[:] = copy.source[::-1].copy(), 0
    run(make(engines, 100), engines, copy.d, _core.READ)
    assert copy.source.any()
    assert copy.arrived


def test_processor_time_is_counted_by_party(engines: _core.CopyEngines) -> None:
    assert (engines.unfold_ns, engines.cpu_ns) == (0, 0)
    submitter = make(engines)
    other = Copy.of(10_000, 64)
    run(submitter, engines, other.d)
    assert other.arrived
    until(lambda: submitter_idle(submitter))
    assert 0 < engines.unfold_ns <= engines.cpu_ns
    engines.stop()
    assert engines.cpu_ns >= engines.unfold_ns


def submitter_idle(submitter: CoprocessorSubmitter) -> bool:
    control = submitter._control
    return control is not None and control.query() is StreamState.IDLE


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    """Pieces whose destinations do not overlap, sources anywhere in 4 KiB."""
    lengths = draw(st.lists(st.integers(1, 40), max_size=60))
    gaps = draw(st.lists(st.integers(0, 3), min_size=len(lengths), max_size=len(lengths)))
    pieces, at = [], 0
    for length, gap in zip(lengths, gaps, strict=True):
        at += gap
        source = at if draw(st.booleans()) else draw(st.integers(0, 4096 - length))
        pieces.append((source, at, length))
        at += length
    return draw(st.sampled_from([1, 2, 7, 1920])), draw(st.permutations(pieces))


@settings(max_examples=60, deadline=None)
@given(st.lists(batches(), min_size=1, max_size=6))
def test_memory_becomes_what_the_oracle_says(
    given_batches: list[tuple[int, list[tuple[int, int, int]]]],
) -> None:
    engines = _core.CopyEngines(2)
    submitter = make(engines, given_batches[0][0])
    here = np.random.default_rng(1).integers(0, 256, 4096, np.uint8)
    there = np.zeros(4096, np.uint8)
    near, far = int(here.ctypes.data), int(there.ctypes.data)
    memory = {near: bytearray(here), far: bytearray(there)}
    for _, pieces in given_batches:
        wanted = [oracle.Piece(near + a, far + b, n) for a, b, n in pieces]
        oracle.move(_core.WRITE, wanted, memory)
        rows = np.array(wanted, np.uint64).reshape(len(wanted), 3)
        run(submitter, engines, _core.Descriptors(rows))
        assert there.tobytes() == memory[far]
    engines.stop()


@pytest.mark.parametrize("most", [3, 1920])
def test_many_threads_on_one_slot(engines: _core.CopyEngines, most: int) -> None:
    submitter, failures = make(engines, most), []

    def work(index: int) -> None:
        try:
            copies = [Copy.of(50 * (index + 1), 40 + k) for k in range(30)]
            flying = []
            for copy in copies:
                done = _core.Done(engines)
                flying.append((submitter.submit(_core.WRITE, copy.d, done, None, True), done))
            for lent, done in flying:
                assert finish(submitter, lent, done) == _core.OK
            assert all(copy.arrived for copy in copies)
        except BaseException as error:
            failures.append(error)

    crew = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert failures == []


# ---- abort ----


def hold_with(
    submitter: CoprocessorSubmitter, engines: _core.CopyEngines, copy: Copy
) -> tuple[Slot | None, _core.Done]:
    """A batch whose first chunk an engine is in."""
    engines.hold(True)
    done = _core.Done(engines)
    lent = submitter.submit(_core.WRITE, copy.d, done, None)
    until(lambda: engines.held == 1)
    return lent, done


def test_one_that_is_queued_is_over_as_soon_as_it_is_aborted(engines: _core.CopyEngines) -> None:
    submitter, first, second = make(engines), Copy.of(4, MIB), Copy.of(300, 4096)
    third, after = Copy.of(5000, 8), Copy.of(5000, 8)
    lent, done = hold_with(submitter, engines, first)
    lines = [_core.Done(engines) for _ in range(2)]
    slots = [
        submitter.submit(_core.WRITE, copy.d, line, None)
        for copy, line in zip((second, third), lines, strict=True)
    ]
    submitter.abort(lines[0])
    assert lines[0].quiet
    assert lines[0].outcome == _core.ABORTED
    assert not lines[1].quiet
    submitter.release(slots[0] or [], True)
    untouched = second.target
    del second, slots  # nobody may look at its descriptors any more
    line = _core.Done(engines)
    fresh = submitter.submit(_core.WRITE, after.d, line, None)
    assert fresh != lent  # what comes after a failure goes over a slot of its own
    engines.hold(False)
    assert finish(submitter, lent, done) == _core.OK
    assert lines[1].wait(_core.now() + PATIENCE)
    assert finish(submitter, fresh, line) == _core.OK
    assert (first.arrived, third.arrived, after.arrived) == (True, True, True)
    assert not untouched.any()


def test_a_line_used_again_is_not_taken_for_its_former_transfer(
    engines: _core.CopyEngines,
) -> None:
    submitter, first, dropped = make(engines), Copy.of(2, MIB), Copy.of(9, 100)
    lent, done = hold_with(submitter, engines, first)
    for _ in range(10):
        line = _core.Done(engines)
        submitter.submit(_core.WRITE, dropped.d, line, None)
        submitter.abort(line)
        assert line.quiet
        del line  # its line is the next one's
    last, line = Copy.of(9, 100), _core.Done(engines)
    slot = submitter.submit(_core.WRITE, last.d, line, None)
    engines.hold(False)
    assert finish(submitter, slot, line) == _core.OK
    assert finish(submitter, lent, done) == _core.OK
    assert last.arrived
    assert not dropped.target.any()


@pytest.mark.parametrize("most", [1, 2, 1920])
def test_aborted_under_way_it_stops_behind_its_chunk(engines: _core.CopyEngines, most: int) -> None:
    submitter, copy = make(engines, most), Copy.of(8, MIB)
    lent, done = hold_with(submitter, engines, copy)
    submitter.abort(done)
    assert not done.wait(_core.now() + 10_000_000)
    assert not copy.target.any()
    engines.hold(False)
    assert finish(submitter, lent, done) == _core.ABORTED
    assert [part.any() for part in copy.target] == [False] * 7 + [True]
    other = Copy.of(5000, 8)
    run(submitter, engines, other.d)
    assert other.arrived


def test_aborted_between_logical_batches_the_ring_stays_whole(engines: _core.CopyEngines) -> None:
    """What is aborted at any moment leaves the slot as it was to those queued behind."""
    submitter, copy, other = make(engines, 5), Copy.of(6000, 64), Copy.of(6000, 64)
    for wait_us in range(0, 1000, 50):
        copy.target[:] = other.target[:] = 0
        first, second = _core.Done(engines), _core.Done(engines)
        lent = submitter.submit(_core.WRITE, copy.d, first, None)
        behind = submitter.submit(_core.WRITE, other.d, second, None)
        begun = _core.now()
        while _core.now() < begun + wait_us * 1000:
            pass
        submitter.abort(first)
        assert finish(submitter, behind, second) == _core.OK
        assert other.arrived
        outcome = finish(submitter, lent, first)
        assert outcome in (_core.OK, _core.ABORTED)
        assert copy.arrived == (outcome == _core.OK)


def test_aborted_before_it_is_published_nothing_moves(engines: _core.CopyEngines) -> None:
    submitter, copy, done = make(engines), Copy.of(3, MIB), _core.Done(engines)
    submitter.abort(done)
    lent = submitter.submit(_core.WRITE, copy.d, done, None)
    assert finish(submitter, lent, done) == _core.ABORTED
    other = Copy.of(10, 10)
    run(submitter, engines, other.d)
    assert other.arrived
    assert not copy.target.any()


def test_what_was_published_when_submitting_was_interrupted_becomes_quiet(
    engines: _core.CopyEngines,
) -> None:
    submitter, first, second = make(engines), Copy.of(2, MIB), Copy.of(2, MIB)
    lent, done = hold_with(submitter, engines, first)
    line = _core.Done(engines)
    submitter.submit(_core.WRITE, second.d, line, None)
    line.forsake()
    assert (line.quiet, line.outcome) == (True, _core.ABORTED)
    done.forsake()
    assert not done.quiet
    engines.hold(False)
    assert finish(submitter, lent, done) == _core.ABORTED
    assert not second.target.any()


def test_a_stream_aborts_all_that_was_published(engines: _core.CopyEngines) -> None:
    control = HostControlStream(engines, 1920)
    copies = [Copy.of(2, MIB) for _ in range(3)]
    lines = [_core.Done(engines) for _ in copies]
    engines.hold(True)
    for copy, line in zip(copies, lines, strict=True):
        assert control.publish(copy.d, _core.WRITE, line)
    until(lambda: engines.held == 1)
    assert not control.abort(0.01)
    assert [line.quiet for line in lines] == [False, True, True]
    engines.hold(False)
    assert control.abort(20)
    assert [line.outcome for line in lines] == [_core.ABORTED] * 3
    assert not copies[1].target.any()


# ---- a full control stream ----


def fill(
    submitter: CoprocessorSubmitter, engines: _core.CopyEngines, copies: Sequence[Copy]
) -> list[tuple[Slot | None, _core.Done]]:
    """The first is held, all others are queued."""
    flying = [hold_with(submitter, engines, copies[0])]
    for copy in copies[1:]:
        done = _core.Done(engines)
        flying.append((submitter.submit(_core.WRITE, copy.d, done, None), done))
    return flying


def test_full_at_once_or_waited_for(engines: _core.CopyEngines) -> None:
    submitter = make(engines)
    copies = [Copy.of(3, 1000) for _ in range(ENTRIES + 3)]
    flying = fill(submitter, engines, copies[:-2])
    done = _core.Done(engines)
    with pytest.raises(Full) as full:
        submitter.submit(_core.WRITE, copies[-1].d, done, None)
    assert (full.value.cause, done.quiet) == ("no_slot", False)
    with pytest.raises(Timeout) as late:
        submitter.submit(_core.WRITE, copies[-1].d, done, _core.now() + 5_000_000, True)
    assert (late.value.cause, late.value.bytes_moved) == ("no_slot", 0)
    done.forsake()
    assert done.quiet
    patient = _core.Done(engines)
    waiter = threading.Thread(
        target=lambda: flying.append(
            (submitter.submit(_core.WRITE, copies[-2].d, patient, None, True), patient)
        )
    )
    waiter.start()
    engines.hold(False)
    waiter.join()
    assert [finish(submitter, *each) for each in flying] == [_core.OK] * (ENTRIES + 2)
    assert all(copy.arrived for copy in copies[:-1])
    assert not copies[-1].target.any()


def test_who_waits_for_room_is_let_go_when_aborted(engines: _core.CopyEngines) -> None:
    submitter = make(engines)
    copies = [Copy.of(3, 1000) for _ in range(ENTRIES + 2)]
    flying = fill(submitter, engines, copies[:-1])
    done, lent = _core.Done(engines), []
    waiter = threading.Thread(
        target=lambda: lent.append(submitter.submit(_core.WRITE, copies[-1].d, done, None, True))
    )
    waiter.start()
    submitter.abort(done)
    waiter.join(20)
    assert not waiter.is_alive()
    assert (lent, done.quiet, done.outcome) == ([None], True, _core.ABORTED)
    engines.hold(False)
    assert [finish(submitter, *each) for each in flying] == [_core.OK] * (ENTRIES + 1)
