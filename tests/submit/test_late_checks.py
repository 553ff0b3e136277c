"""Batches that a coprocessor checks: relocated region by region, refused before the first byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import _core
from kvferry.memory import late_refusal
from tests.submit.copies import Copy, finish, make, run


@pytest.fixture
def engines() -> Iterator[_core.CopyEngines]:
    engines = _core.CopyEngines(2)
    yield engines
    engines.hold(False)
    engines.stop()


class Regions:
    """Three regions there, adjacent in their owner's addresses and apart in ours, and our own."""

    SIZE = 4096

    def __init__(self, ways: Sequence[int] = (0, 0, 0), writable: Sequence[bool] = (True,) * 3):
        self.here = np.random.default_rng(5).integers(1, 256, 3 * self.SIZE, np.uint8)
        self.there = np.zeros((3, 2 * self.SIZE), np.uint8)
        self.base, self.start = 1 << 40, int(self.here.ctypes.data)
        self.local, self.remote = _core.SpanTable(), _core.SpanTable()
        for index in range(3):
            at = index * self.SIZE
            image = int(self.there[2 - index].ctypes.data)
            span = _core.Span(self.base + at, self.SIZE, image, writable[index])
            span.way = ways[index]
            self.remote.add(span)
            self.local.add(_core.Span(self.start + at, self.SIZE, self.start + at, True))
        self.spans = [*self.remote.overlapping(0, 1 << 63), *self.local.overlapping(0, 1 << 63)]

    def resolve(
        self, pieces: Sequence[tuple[int, int, int]], write: bool = True, late: int = 1
    ) -> _core.Descriptors:
        """Pieces by offset: ours, theirs, length."""
        rows = np.array([(self.start + a, self.base + b, n) for a, b, n in pieces], np.uint64)
        d = _core.Descriptors(rows)
        return _core.resolve(write, d, None, self.local, None, self.remote, late)

    @property
    def inside(self) -> int:
        return sum(span.inside for span in self.spans)


def test_late_batches_are_relocated_region_by_region(engines: _core.CopyEngines) -> None:
    regions = Regions()
    pieces = [(at, 3 * 4096 - 8 - at, 8) for at in range(0, 3 * 4096, 8)]
    d = regions.resolve(pieces)
    assert (d.verdict, d.late, regions.inside) == (_core.RESOLVED, True, 6)
    run(make(engines, 100), engines, d)
    got = np.concatenate([regions.there[2 - k][:4096] for k in range(3)])
    assert np.array_equal(got.reshape(-1, 8), regions.here.reshape(-1, 8)[::-1])
    assert not regions.there[:, 4096:].any()
    d.release()
    assert regions.inside == 0


def test_adjacent_regions_are_not_joined(engines: _core.CopyEngines) -> None:
    regions = Regions()
    d = regions.resolve([(at, at, 4096) for at in range(0, 3 * 4096, 4096)])
    run(make(engines), engines, d)
    assert np.array_equal(regions.there[::-1, :4096].ravel(), regions.here)


def test_one_region_is_checked_at_once(engines: _core.CopyEngines) -> None:
    regions = Regions()
    d = regions.resolve([(8, 4096 + 8, 8), (64, 4096 + 64, 8)])
    assert (d.late, regions.inside) == (False, 2)
    run(make(engines), engines, d)
    assert np.array_equal(regions.there[1][8:16], regions.here[8:16])


GOOD = [(0, 0, 64), (4096, 4096, 64)]


@pytest.mark.parametrize(
    ("bad", "write", "verdict", "side"),
    [
        ((64, 3 * 4096, 8), True, _core.UNKNOWN, _core.REMOTE),
        ((64, 8190, 8), True, _core.LEAVES, _core.REMOTE),
        ((64, 2 * 4096, 8), True, _core.READONLY, _core.REMOTE),
        ((8190, 64, 8), True, _core.LEAVES, _core.LOCAL),
        ((3 * 4096 + 5, 64, 8), False, _core.UNKNOWN, _core.LOCAL),
    ],
)
@pytest.mark.parametrize("position", [0, 1, 2, 3000])
def test_refused_before_the_first_byte(
    engines: _core.CopyEngines,
    bad: tuple[int, int, int],
    write: bool,
    verdict: int,
    side: int,
    position: int,
) -> None:
    regions, submitter = Regions(writable=(True, True, False)), make(engines, 10)
    pieces = [GOOD[k % 2] for k in range(max(2, position))]
    pieces.insert(position, bad)
    before = regions.here.copy()
    d, done = regions.resolve(pieces, write), _core.Done(engines)
    assert (d.verdict, d.late) == (_core.RESOLVED, True)
    lent = submitter.submit(_core.WRITE if write else _core.READ, d, done, None)
    assert finish(submitter, lent, done) == _core.REFUSED
    address = regions.start + bad[0] if side == _core.LOCAL else regions.base + bad[1]
    assert done.refused == (verdict, side, address)
    error = late_refusal(done, SimpleNamespace(descriptors=d), "peer")  # type: ignore[arg-type]
    assert (error.index, error.range) == (position, (address, bad[2]))
    assert (done.begun, error.bytes_moved) == (False, 0)
    assert (done.coprocessor_batches, done.moving_ns, engines.bytes) == (0, 0, 0)
    assert not regions.there.any()
    assert np.array_equal(regions.here, before)
    d.release()
    assert regions.inside == 0
    other = Copy.of(3, 3)
    run(submitter, engines, other.d)
    assert other.arrived


def test_mixed_ways_are_refused_late(engines: _core.CopyEngines) -> None:
    regions, submitter = Regions(ways=(0, 0, 1)), make(engines)
    d, done = regions.resolve([*GOOD, (0, 2 * 4096, 8), (0, 0, 8)]), _core.Done(engines)
    assert (d.way, d.late) == (0, True)
    lent = submitter.submit(_core.WRITE, d, done, None)
    assert finish(submitter, lent, done) == _core.REFUSED
    assert done.refused == (_core.MIXED, _core.REMOTE, regions.base + 2 * 4096)
    assert not regions.there.any()


def test_other_ways_are_checked_at_once() -> None:
    regions = Regions(ways=(1, 1, 0))
    d = regions.resolve([*GOOD, (0, 3 * 4096, 8)])
    assert (d.verdict, d.index, d.late, regions.inside) == (_core.UNKNOWN, 2, False, 0)
    d = regions.resolve([*GOOD, (0, 2 * 4096, 8)])
    assert (d.verdict, d.index) == (_core.MIXED, 2)
    d = regions.resolve(GOOD)
    assert (d.verdict, d.way, d.late) == (_core.RESOLVED, 1, False)


def test_a_closed_region_is_as_good_as_unknown(engines: _core.CopyEngines) -> None:
    regions, submitter = Regions(), make(engines)
    regions.remote.overlapping(regions.base + 4096, 1)[0].close()
    d, done = regions.resolve(GOOD), _core.Done(engines)
    assert regions.inside == 3
    lent = submitter.submit(_core.WRITE, d, done, None)
    assert finish(submitter, lent, done) == _core.REFUSED
    assert done.refused == (_core.UNKNOWN, _core.REMOTE, regions.base + 4096)


def test_only_regions_between_the_extremes_are_held() -> None:
    regions = Regions()
    d = regions.resolve(GOOD)
    assert [span.inside for span in regions.spans] == [1, 1, 0, 1, 1, 0]
    d.release()
    assert regions.inside == 0


def test_submitting_does_not_look_at_every_descriptor() -> None:
    """Descriptors of nobody's memory pass, whatever their number; the first says which way."""
    regions = Regions()
    d = regions.resolve([GOOD[0], *[(0, 1 << 39, 1)] * 5000])
    assert (d.verdict, d.late) == (_core.RESOLVED, True)


offsets = st.one_of(
    st.integers(0, 3 * 4096 - 1), st.sampled_from([0, 4095, 4096, 8191, 8192, 12288])
)
lengths = st.sampled_from([1, 2, 9, 64, 4096])


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(offsets, offsets, lengths), min_size=1, max_size=12),
    st.tuples(*[st.booleans()] * 3),
    st.booleans(),
)
def test_late_and_at_once_come_to_the_same(
    pieces: list[tuple[int, int, int]], writable: tuple[bool, bool, bool], write: bool
) -> None:
    engines, op = _core.CopyEngines(2), _core.WRITE if write else _core.READ
    at_once, late = Regions(writable=writable), Regions(writable=writable)
    submitter, done, line = make(engines, 3), _core.Done(engines), _core.Done(engines)
    expected, d = at_once.resolve(pieces, write, 0), late.resolve(pieces, write)
    assert d.verdict == _core.RESOLVED
    outcome = finish(submitter, submitter.submit(op, d, done, None), done)
    if expected.verdict:
        assert outcome == _core.REFUSED
        verdict, side, _ = done.refused
        assert (verdict, side) == (expected.verdict, expected.side)
        local, remote, _ = d.row(expected.index)
        assert done.refused[2] == (local if side == _core.LOCAL else remote)
    else:
        assert outcome == _core.OK
        engines.copy_inline(op, expected, line)
    assert np.array_equal(late.there, at_once.there)
    assert np.array_equal(late.here, at_once.here)
    engines.stop()
