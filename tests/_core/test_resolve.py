"""Resolving against the oracle: verdict, side, index, relocation, and the gates it holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import _core
from kvferry.testing import oracle
from kvferry.testing.oracle import Area, Piece

TOP = 1 << 47


@st.composite
def tables(draw: st.DrawFn) -> list[Area]:
    """Areas that do not overlap, some of them adjacent, some read-only."""
    areas, at = [], draw(st.integers(0, 5000))
    for _ in range(draw(st.integers(0, 6))):
        length = draw(st.integers(1, 100))
        here = draw(st.integers(0, TOP))
        areas.append(Area(at, length, here, draw(st.booleans())))
        at += length + draw(st.sampled_from([0, 0, 1, 50]))
    return areas


def addresses(table: Sequence[Area]) -> st.SearchStrategy[int]:
    """Mostly in an area or at its ends; sometimes anywhere."""
    anywhere = st.integers(0, (1 << 64) - 200)
    if not table:
        return anywhere
    near = st.sampled_from(table).flatmap(
        lambda area: st.integers(max(area.base - 1, 0), area.base + area.length)
    )
    return st.one_of(near, near, near, near, anywhere)


@st.composite
def cases(draw: st.DrawFn) -> tuple[bool, list[Piece], list[Area], list[Area]]:
    ours, theirs = draw(tables()), draw(tables())
    lengths = st.one_of(st.integers(1, 5), st.integers(1, 120))
    pieces = draw(
        st.lists(st.builds(Piece, addresses(ours), addresses(theirs), lengths), max_size=8)
    )
    return draw(st.booleans()), pieces, ours, theirs


class Native:
    """The native twin of a table."""

    def __init__(self, areas: Sequence[Area]) -> None:
        self.table = _core.SpanTable()
        self.spans = {area: _core.Span(*area) for area in areas}
        for span in self.spans.values():
            self.table.add(span)

    @property
    def inside(self) -> dict[Area, int]:
        return {area: span.inside for area, span in self.spans.items() if span.inside}


def descriptors(pieces: Sequence[Piece]) -> _core.Descriptors:
    rows = np.array(pieces, np.uint64).reshape(len(pieces), 3)
    d = _core.Descriptors(rows)
    assert d.verdict == _core.FIT
    return d


def check(
    write: bool,
    pieces: Sequence[Piece],
    ours: Sequence[Area],
    theirs: Sequence[Area],
    local: Area | None = None,
    remote: Area | None = None,
    local_checked: bool = True,
) -> _core.Descriptors:
    """Resolve natively and by the oracle; the native answer, already released."""
    near, far = Native(ours), Native(theirs)
    wanted = oracle.resolve(write, pieces, local, ours if local_checked else None, remote, theirs)
    found = _core.resolve(
        write,
        descriptors(pieces),
        None if local is None else near.spans[local],
        near.table if local_checked else None,
        None if remote is None else far.spans[remote],
        far.table,
    )
    assert found.verdict == wanted.verdict
    if wanted.verdict != _core.RESOLVED:
        assert (found.side, found.index) == (wanted.side, wanted.position)
        assert (near.inside, far.inside) == ({}, {})
        return found
    used: dict[int, dict[Area, int]] = {_core.LOCAL: {}, _core.REMOTE: {}}
    for side, area in wanted.used:
        used[side][area] = 1
    assert (near.inside, far.inside) == (used[_core.LOCAL], used[_core.REMOTE])
    for native in (near, far):
        for area, span in native.spans.items():
            assert found.holds(span) == (area in native.inside)
    found.release()
    assert (near.inside, far.inside) == ({}, {})
    found.release()
    assert (near.inside, far.inside) == ({}, {})
    return found


@settings(max_examples=100, deadline=None)
@given(cases())
def test_looked_up_in_tables(case: tuple[bool, list[Piece], list[Area], list[Area]]) -> None:
    write, pieces, ours, theirs = case
    check(write, pieces, ours, theirs)
    check(write, pieces, ours, theirs, local_checked=False)


@settings(max_examples=60, deadline=None)
@given(cases(), st.data())
def test_against_one_named_span(
    case: tuple[bool, list[Piece], list[Area], list[Area]], data: st.DataObject
) -> None:
    write, pieces, ours, theirs = case
    local = data.draw(st.sampled_from(ours)) if ours else None
    remote = data.draw(st.sampled_from(theirs)) if theirs else None
    check(write, pieces, ours, theirs, local, remote)
    check(write, pieces, ours, theirs, None, remote)
    check(write, pieces, ours, theirs, local, None)
    check(write, pieces, ours, theirs, None, remote, local_checked=False)


@st.composite
def memories(draw: st.DrawFn) -> tuple[bool, list[Piece], list[int]]:
    """Pieces inside regions of 64 bytes each, by offset; and the regions' kind of adjacency."""
    count = draw(st.integers(1, 4))
    gaps = draw(st.lists(st.sampled_from([0, 64, 192]), min_size=count, max_size=count))
    pieces = []
    for _ in range(draw(st.integers(1, 8))):
        length = draw(st.integers(1, 20))
        far = draw(st.integers(0, count - 1)) << 8 | draw(st.integers(0, 64 - length))
        pieces.append(Piece(draw(st.integers(0, 256 - length)), far, length))
    return draw(st.booleans()), pieces, gaps


@settings(max_examples=60, deadline=None)
@given(memories())
def test_the_bytes_go_where_the_oracle_says(case: tuple[bool, list[Piece], list[int]]) -> None:
    """Relocation, seen by its effect: regions that are adjacent there lie apart here."""
    write, offsets, gaps = case
    random = np.random.default_rng(len(offsets))
    here = random.integers(0, 256, 256, np.uint8)
    there = random.integers(0, 256, 64 * 2 * len(gaps), np.uint8)
    areas, base = [], TOP
    for index, gap in enumerate(gaps):
        # Their images stand in the opposite order.
        image = int(there.ctypes.data) + 128 * (len(gaps) - 1 - index)
        areas.append(Area(base, 64, image, True))
        base += 64 + gap
    start = int(here.ctypes.data)
    pieces = [
        Piece(start + local, areas[far >> 8].base + (far & 255), length)
        for local, far, length in offsets
    ]
    wanted = oracle.resolve(write, pieces, None, None, None, areas)
    memory = {start: bytearray(here), int(there.ctypes.data): bytearray(there)}
    oracle.move(_core.WRITE if write else _core.READ, wanted.pieces, memory)
    native, engines = Native(areas), _core.CopyEngines(1)
    d = _core.resolve(write, descriptors(pieces), None, None, None, native.table)
    done = _core.Done(engines)
    engines.copy_inline(_core.WRITE if write else _core.READ, d, done)
    assert (done.quiet, done.outcome) == (True, _core.OK)
    assert here.tobytes() == memory[start]
    assert there.tobytes() == memory[int(there.ctypes.data)]


def one(write: bool = True) -> tuple[Native, Native, Area, Area, _core.Descriptors]:
    ours, theirs = Area(1000, 100, 1000, True), Area(5000, 100, 9000, True)
    return Native([ours]), Native([theirs]), ours, theirs, descriptors([Piece(1000, 5000, 10)])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("side", [_core.LOCAL, _core.REMOTE])
def test_a_closed_span_is_stale_on_its_side(named: bool, side: int) -> None:
    near, far, ours, theirs, d = one()
    closed = near.spans[ours] if side == _core.LOCAL else far.spans[theirs]
    closed.close()
    local, remote = (near.spans[ours], far.spans[theirs]) if named else (None, None)
    found = _core.resolve(True, d, local, near.table, remote, far.table)
    assert (found.verdict, found.side) == (_core.STALE, side)
    assert (near.inside, far.inside) == ({}, {})
    assert closed.drain(_core.now())


def test_a_span_of_another_table_is_stale() -> None:
    near, far, ours, theirs, d = one()
    far.table.discard(far.spans[theirs])
    found = _core.resolve(True, d, near.spans[ours], near.table, far.spans[theirs], far.table)
    assert (found.verdict, found.side) == (_core.STALE, _core.REMOTE)
    assert near.inside == {}
    found = _core.resolve(
        True, d, near.spans[ours], _core.SpanTable(), far.spans[theirs], far.table
    )
    assert (found.verdict, found.side) == (_core.STALE, _core.LOCAL)


def test_gates_are_held_until_the_last_reference() -> None:
    near, far, ours, theirs, d = one()
    found = _core.resolve(True, d, near.spans[ours], near.table, far.spans[theirs], far.table)
    assert (near.inside, far.inside) == ({ours: 1}, {theirs: 1})
    (run,) = found.cut(1)
    del found
    assert (near.inside, far.inside) == ({ours: 1}, {theirs: 1})
    del run
    assert (near.inside, far.inside) == ({}, {})


def test_a_span_drains_when_its_transfers_end() -> None:
    near, far, ours, theirs, d = one()
    span = far.spans[theirs]
    found = _core.resolve(True, d, near.spans[ours], near.table, span, far.table)
    assert span.close()
    assert not span.close()
    assert not span.drain(_core.now() + 1_000_000)
    found.release()
    assert span.drain(_core.now())


def test_a_table_knows_what_overlaps() -> None:
    native = Native([Area(100, 50, 0, True), Area(150, 50, 0, True), Area(300, 1, 0, True)])
    spans = list(native.spans.values())
    assert len(native.table) == 3
    assert native.table.overlapping(0, 100) == []
    assert native.table.overlapping(149, 2) == spans[:2]
    assert native.table.overlapping(200, 100) == []
    assert native.table.overlapping(0, 1 << 40) == spans
    native.table.discard(spans[1])
    native.table.discard(spans[1])
    assert native.table.overlapping(150, 50) == []
