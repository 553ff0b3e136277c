"""Staging against a plain model of memory, over an inner mover that remembers what it was given."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import _core

BELOW = _core.STAGE_BELOW
SECOND = 1_000_000_000
MOST = 12 * BELOW
NOISE = np.random.default_rng(1).integers(0, 256, 2 * MOST, np.uint8)


class Piece(NamedTuple):
    local: int
    remote: int
    length: int


class _Run(ctypes.Structure):
    _fields_ = (
        ("d", ctypes.POINTER(ctypes.c_uint64)),
        ("skip", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("delta", ctypes.c_uint64),
    )

    def pieces(self) -> list[Piece]:
        found, left, skip, at = [], self.bytes, self.skip, 0
        while left:
            local, remote, length = self.d[at : at + 3]
            take = min(length - skip, left)
            found.append(Piece(local + skip, remote + self.delta + skip, take))
            left, skip, at = left - take, 0, at + 3
        return found


_RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _Run, ctypes.c_int, ctypes.c_void_p)


class FakeWire:
    """Moves in memory and remembers its runs; keep it as long as its mover.

    `answer`, by a run's number, says how each ends: what fails has moved the first half of its
    pieces.
    """

    def __init__(self, answer: Callable[[int], int] = lambda number: _core.OK) -> None:
        self.runs: list[list[Piece]] = []
        self._answer = answer
        self._lock = threading.Lock()
        self._run = _RUN(self._carry)
        self.mover = _core.MoverAt(ctypes.addressof(self._run))

    def _carry(self, mover: int, run: _Run, op: int, brake: int) -> int:
        pieces = run.pieces()
        with self._lock:
            self.runs.append(pieces)
            number = len(self.runs)
        outcome = self._answer(number)
        for local, remote, length in pieces[
            : len(pieces) if outcome == _core.OK else len(pieces) // 2
        ]:
            to, source = (remote, local) if op == _core.WRITE else (local, remote)
            ctypes.memmove(to, source, length)
        return outcome


class Scene:
    """Two areas of noise, and batches of pieces between them, given by offsets."""

    def __init__(self, pieces: list[Piece], registered: bool) -> None:
        self.size = size = max(max(piece[:2]) + piece.length for piece in pieces) + 100
        self.here, self.there = NOISE[:size].copy(), NOISE[MOST : MOST + size].copy()
        self.pieces = pieces
        here, there = self.here.ctypes.data, self.there.ctypes.data
        self._remote = _core.SpanTable()
        # Its owner has it elsewhere.
        remote = _core.Span(1 << 20, size, there, True)
        self._remote.add(remote)
        self._local = _core.SpanTable()
        local = _core.Span(here, size, here, True)
        self._local.add(local)
        rows = [(here + a, (1 << 20) + b, length) for a, b, length in pieces]
        self._batch = _core.Descriptors(np.array(rows, np.uint64))
        self._spans = (local, self._local) if registered else (None, None)
        self._span = remote

    def resolve(self, op: int) -> _core.Descriptors:
        d = _core.resolve(op == _core.WRITE, self._batch, *self._spans, self._span, self._remote)
        assert d.verdict == _core.RESOLVED
        return d

    def destination(self, op: int) -> np.ndarray:
        return self.there if op == _core.WRITE else self.here

    def wanted(self, op: int) -> np.ndarray:
        source, to = (self.here, self.there) if op == _core.WRITE else (self.there, self.here)
        wanted = to.copy()
        for a, b, length in self.pieces:
            begin, end = (a, b) if op == _core.WRITE else (b, a)
            wanted[end : end + length] = source[begin : begin + length]
        return wanted

    def stretches(self) -> list[int]:
        """Lengths of the batch's pieces where neighbours are taken as one."""
        lengths: list[int] = []
        last = None
        for piece in self.pieces:
            if last and last[0] + last[2] == piece[0] and last[1] + last[2] == piece[1]:
                lengths[-1] += piece.length
            else:
                lengths.append(piece.length)
            last = piece
        return lengths


class Ground:
    """Engines, and transfers in the calling thread."""

    def __init__(self) -> None:
        self.engines = _core.CopyEngines(1)

    def run(
        self,
        op: int,
        d: _core.Descriptors,
        mover: _core.Mover,
        deadline: int | None = None,
        done: _core.Done | None = None,
    ) -> _core.Done:
        done = done or _core.Done(self.engines)
        d.via(mover)
        self.engines.copy_inline(op, d, done, deadline)
        return done


@pytest.fixture(scope="module")
def ground() -> Ground:
    return Ground()


def placed(shapes: list[tuple[int, int, int]], order: list[int]) -> list[Piece]:
    """Pieces one behind the other on either side, with gaps, taken in some order."""
    pieces, a, b = [], 0, 0
    for length, gap_here, gap_there in shapes:
        a, b = a + gap_here, b + gap_there
        pieces.append(Piece(a, b, length))
        a, b = a + length, b + length
    return [pieces[i] for i in order]


lengths = st.one_of(
    st.integers(1, 5000), st.sampled_from([BELOW // 2, BELOW - 1, BELOW, BELOW + 1])
)
gaps = st.sampled_from([0, 0, 1, 4096])
batches = st.lists(st.tuples(lengths, gaps, gaps), min_size=1, max_size=10).flatmap(
    lambda shapes: st.one_of(
        st.just(list(range(len(shapes)))), st.permutations(range(len(shapes)))
    ).map(lambda order: placed(shapes, list(order)))
)


@settings(max_examples=100, deadline=None)
@given(
    pieces=batches,
    op=st.sampled_from([_core.WRITE, _core.READ]),
    registered=st.booleans(),
    size=st.sampled_from([100, 4096, 3 * BELOW]),
)
def test_every_byte_arrives_and_the_rule_says_which_are_staged(
    ground: Ground, pieces: list[Piece], op: int, registered: bool, size: int
) -> None:
    scene, wire = Scene(pieces, registered), FakeWire()
    wanted = scene.wanted(op)
    done = ground.run(op, scene.resolve(op), _core.Bounce(wire.mover, _core.BouncePool(1, size)))
    assert (done.quiet, done.outcome) == (True, _core.OK)
    assert np.array_equal(scene.destination(op), wanted)
    stretches = scene.stretches()
    staged = [
        length for length in stretches if not registered or (length < BELOW and len(stretches) > 1)
    ]
    assert done.staged == sum(staged)
    here = scene.here.ctypes.data
    given = [piece for run in wire.runs for piece in run]
    direct = [piece.length for piece in given if here <= piece.local < here + scene.size]
    assert sum(piece.length for piece in given) == sum(stretches)
    assert sum(direct) == sum(stretches) - sum(staged)
    assert max(map(len, wire.runs)) <= 4096
    # The remote side is gone through in the order of the batch.
    there = scene.there.ctypes.data
    walked = [(a, length) for _, a, length in given]
    expected = [(there + b, length) for _, b, length in scene.pieces]
    assert joined(walked) == joined(expected)


def joined(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for at, length in stretches:
        if found and sum(found[-1]) == at:
            found[-1] = (found[-1][0], found[-1][1] + length)
        else:
            found.append((at, length))
    return found


@pytest.mark.parametrize("registered", [True, False])
def test_large_pieces_are_not_cut_by_small_ones_among_them(
    ground: Ground, registered: bool
) -> None:
    pieces = placed([(BELOW, 1, 1), (64, 1, 1), (2 * BELOW, 1, 1), (64, 1, 1)], [0, 1, 2, 3])
    scene, wire = Scene(pieces, registered), FakeWire()
    pool = _core.BouncePool(1, 8 * BELOW)
    ground.run(_core.WRITE, scene.resolve(_core.WRITE), _core.Bounce(wire.mover, pool))
    runs = [[piece.length for piece in run] for run in wire.runs]
    whole = [BELOW, 64, 2 * BELOW, 64]
    assert runs == ([[BELOW], whole[1:]] if registered else [whole])


@pytest.mark.parametrize("outcome", [_core.ABORTED, _core.LOST, _core.REFUSED, _core.FAULT])
def test_a_read_whose_inner_run_fails_writes_nothing_of_that_round(
    ground: Ground, outcome: int
) -> None:
    pieces = placed([(100, 7, 0)] * 12, list(range(12)))
    scene = Scene(pieces, registered=False)
    before = scene.here.copy()
    wire = FakeWire(lambda number: outcome if number == 3 else _core.OK)
    mover = _core.Bounce(wire.mover, _core.BouncePool(1, 400))
    done = ground.run(_core.READ, scene.resolve(_core.READ), mover)
    assert (done.quiet, done.outcome, done.staged) == (True, outcome, 800)
    for a, b, length in pieces[:8]:
        before[a : a + length] = scene.there[b : b + length]
    assert np.array_equal(scene.here, before)
    assert len(wire.runs) == 3


@pytest.mark.parametrize("op", [_core.WRITE, _core.READ])
def test_aborted_before_it_begins_nothing_moves(ground: Ground, op: int) -> None:
    scene, wire = Scene(placed([(64, 1, 1)] * 4, [3, 2, 1, 0]), registered=True), FakeWire()
    before, done = scene.destination(op).copy(), _core.Done(ground.engines)
    done.abort()
    ground.run(op, scene.resolve(op), _core.Bounce(wire.mover, _core.BouncePool(1, 64)), done=done)
    assert (done.outcome, done.staged, wire.runs) == (_core.ABORTED, 0, [])
    assert np.array_equal(scene.destination(op), before)


def test_runs_on_streams_keep_what_is_known_of_the_local_side(ground: Ground) -> None:
    for registered in (True, False):
        scene = Scene([Piece(0, 0, 8 * BELOW)], registered)
        wanted = scene.wanted(_core.WRITE)
        pool = _core.BouncePool(2, BELOW)
        done = _core.Done(ground.engines)
        runs = scene.resolve(_core.WRITE).cut(3)
        done.spread(len(runs))
        wires = [FakeWire() for _ in runs]
        streams = [_core.Stream(ground.engines, _core.Bounce(wire.mover, pool)) for wire in wires]
        for word, (stream, run) in enumerate(zip(streams, runs, strict=True)):
            stream.copy(_core.WRITE, run, done)
            stream.flag(done, word, wake=False)
            stream.help(done)
        assert done.wait(_core.now() + 20 * SECOND)
        assert (done.outcome, done.staged) == (_core.OK, 0 if registered else 8 * BELOW)
        assert np.array_equal(scene.there, wanted)
        assert all(wire.runs for wire in wires)


def test_who_finds_no_buffer_waits_and_may_be_stopped(ground: Ground) -> None:
    """One transfer sits in its inner run, with the only buffer."""
    entered, leave = threading.Event(), threading.Event()

    def answer(number: int) -> int:
        if number == 1:
            entered.set()
            leave.wait(20)
        return _core.OK

    wire, pool = FakeWire(answer), _core.BouncePool(1, 4096)
    scenes = [Scene([Piece(0, 0, 64)], registered=False) for _ in range(3)]
    dones = [_core.Done(ground.engines) for _ in scenes]

    def work(index: int, deadline: int | None = None) -> threading.Thread:
        d = scenes[index].resolve(_core.WRITE)
        mover = _core.Bounce(wire.mover, pool)
        thread = threading.Thread(
            target=ground.run, args=(_core.WRITE, d, mover, deadline, dones[index])
        )
        thread.start()
        return thread

    first = work(0)
    assert entered.wait(20)
    work(1, _core.now() + SECOND // 50).join()
    assert dones[1].outcome == _core.EXPIRED
    third = work(2)
    dones[2].abort()
    third.join()
    assert (dones[2].outcome, len(wire.runs)) == (_core.ABORTED, 1)
    leave.set()
    first.join()
    assert (dones[0].outcome, dones[0].staged) == (_core.OK, 64)


class Alarm(Exception):
    pass


def test_a_signal_is_taken_while_there_is_no_buffer(ground: Ground) -> None:
    """Its handler runs, and what it raises ends the transfer and reaches who waits."""

    def ring(*_: object) -> None:
        raise Alarm

    entered, leave = threading.Event(), threading.Event()

    def answer(number: int) -> int:
        entered.set()
        leave.wait(20)
        return _core.OK

    wire, pool = FakeWire(answer), _core.BouncePool(1, 4096)
    scenes = [Scene([Piece(0, 0, 64)], registered=False) for _ in range(2)]
    movers = [_core.Bounce(wire.mover, pool) for _ in scenes]
    first = threading.Thread(
        target=ground.run, args=(_core.WRITE, scenes[0].resolve(_core.WRITE), movers[0])
    )
    first.start()
    assert entered.wait(20)
    done, before = _core.Done(ground.engines), signal.signal(signal.SIGUSR1, ring)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Alarm):
            ground.run(
                _core.WRITE,
                scenes[1].resolve(_core.WRITE),
                movers[1],
                _core.now() + 20 * SECOND,
                done,
            )
    finally:
        signal.signal(signal.SIGUSR1, before)
        timer.join()
        leave.set()
        first.join()
    assert (done.quiet, done.outcome, len(wire.runs)) == (True, _core.ABORTED, 1)


def test_more_threads_than_buffers_all_get_through(ground: Ground) -> None:
    pool, failures = _core.BouncePool(2, 1000), []

    def work(index: int) -> None:
        pieces = placed([(300, 3, 5)] * 20, list(np.random.default_rng(index).permutation(20)))
        wire = FakeWire()
        mover = _core.Bounce(wire.mover, pool)
        scene = Scene(pieces, registered=False)
        for op in (_core.WRITE, _core.READ) * 3:
            wanted = scene.wanted(op)
            done = ground.run(op, scene.resolve(op), mover)
            if (done.outcome, done.staged) != (_core.OK, 6000):
                failures.append((index, done.outcome))
            if not np.array_equal(scene.destination(op), wanted):
                failures.append((index, op))

    crew = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert not failures


@pytest.mark.parametrize(("count", "size"), [(0, 64), (1, 0)])
def test_a_pool_has_buffers(count: int, size: int) -> None:
    with pytest.raises(ValueError, match="has buffers"):
        _core.BouncePool(count, size)


def test_more_than_the_machine_has_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        _core.BouncePool(64, 1 << 60)
