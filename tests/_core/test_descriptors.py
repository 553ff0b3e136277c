"""Descriptor arrays: measuring, cutting, and copying what was cut, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry import _core
from kvferry.testing import oracle
from kvferry.testing.oracle import Piece

U64 = st.integers(0, (1 << 64) - 1)
LOW = st.integers(0, 1 << 47)


def rows(*pieces: tuple[int, int, int]) -> np.ndarray:
    return np.array(pieces, np.uint64).reshape(len(pieces), 3)


@given(st.lists(st.tuples(LOW, LOW, st.integers(1, 1 << 40)), max_size=20))
def test_measured(pieces: list[tuple[int, int, int]]) -> None:
    d = _core.Descriptors(rows(*pieces))
    assert d.verdict == _core.FIT
    assert [d.row(index) for index in range(len(d))] == pieces
    assert d.bytes == sum(length for _, _, length in pieces)
    if pieces:
        assert d.local == (min(p[0] for p in pieces), max(p[0] + p[2] for p in pieces))
        assert d.remote == (min(p[1] for p in pieces), max(p[1] + p[2] for p in pieces))
        assert d.longest == max(p[2] for p in pieces)
    with pytest.raises(IndexError):
        d.row(len(pieces))


@given(st.lists(st.tuples(U64, U64, U64), min_size=1, max_size=5))
def test_the_first_misfit_is_named(pieces: list[tuple[int, int, int]]) -> None:
    def judge() -> tuple[int, int | None]:
        total = 0
        for index, (local, remote, length) in enumerate(pieces):
            if length == 0:
                return _core.EMPTY_PIECE, index
            if max(local, remote) + length >= 1 << 64:
                return _core.WRAPS, index
            total += length
            if total >= 1 << 64:
                return _core.TOO_MANY_BYTES, index
        return _core.FIT, None

    verdict, index = judge()
    d = _core.Descriptors(rows(*pieces))
    assert d.verdict == verdict
    assert index is None or d.index == index


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 2), np.uint64),
        np.zeros((2, 4), np.uint64),
        np.zeros(3, np.uint64),
        np.zeros((2, 3), np.int64),
        np.zeros((2, 3), np.uint32),
        np.zeros((3, 2), np.uint64).T,
        np.zeros((4, 3), np.uint64)[::2],
    ],
    ids=str,
)
def test_other_shapes_are_refused(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"."):
        _core.Descriptors(array)


PAGES = st.sampled_from([1, 100, 4095, 4096, 4097, 10_000, 65536])


@settings(deadline=None, max_examples=60)
@given(st.lists(PAGES, min_size=1, max_size=8), st.integers(1, 8), st.randoms())
def test_runs_together_are_the_batch(lengths: list[int], parts: int, random: object) -> None:
    """Each run copied by itself, in any order: whole pages each but the last, and none is empty."""
    total = sum(lengths)
    source = np.random.default_rng(total).integers(0, 256, total, np.uint8)
    target = np.zeros(total, np.uint8)
    starts = np.cumsum([0, *lengths[:-1]])
    flipped = total - starts - np.array(lengths)
    base = np.array([source.ctypes.data, target.ctypes.data], np.uint64)
    d = _core.Descriptors(
        np.stack(
            [
                base[0] + starts.astype(np.uint64),
                base[1] + flipped.astype(np.uint64),
                np.array(lengths, np.uint64),
            ],
            axis=1,
        ).astype(np.uint64)
    )
    runs = d.cut(parts)
    sizes = [run.bytes for run in runs]
    assert sum(sizes) == total
    assert 1 <= len(runs) <= parts
    assert min(sizes) > 0
    share = -(-total // parts)
    assert all(size % 4096 == 0 and share <= size < share + 4096 for size in sizes[:-1])
    expected = np.zeros(total, np.uint8)
    for start, flip, length in zip(starts, flipped, lengths, strict=True):
        expected[flip : flip + length] = source[start : start + length]
    engines = _core.CopyEngines(1)
    order = list(range(len(runs)))
    random.shuffle(order)  # type: ignore[attr-defined]
    for index in order:
        done = _core.Done(engines)
        engines.copy_inline(_core.WRITE, runs[index], done)
        assert done.quiet
    assert np.array_equal(target, expected)


def test_a_batch_of_few_bytes_is_one_run() -> None:
    for length in (1, 5, 4095, 4096):
        runs = _core.Descriptors(rows((4096, 8192, length))).cut(8)
        assert [run.bytes for run in runs] == [length]
    assert _core.Descriptors(rows()).cut(8) == []


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200), st.integers(1, 50)), max_size=10),
    st.booleans(),
)
def test_a_copy_is_what_the_oracle_does(pieces: list[tuple[int, int, int]], write: bool) -> None:
    """Overlapping targets too: within one run the later descriptor wins."""
    op = _core.WRITE if write else _core.READ
    here = np.random.default_rng(1).integers(0, 256, 256, np.uint8)
    there = np.random.default_rng(2).integers(0, 256, 256, np.uint8)
    bases = here.ctypes.data, there.ctypes.data
    placed = [Piece(bases[0] + a, bases[1] + b, n) for a, b, n in pieces]
    memory = {bases[0]: bytearray(here), bases[1]: bytearray(there)}
    oracle.move(op, placed, memory)
    engines = _core.CopyEngines(1)
    done = _core.Done(engines)
    engines.copy_inline(op, _core.Descriptors(rows(*placed)), done)
    assert (done.quiet, done.outcome, done.inline_copies) == (True, _core.OK, 1)
    assert here.tobytes() == memory[bases[0]]
    assert there.tobytes() == memory[bases[1]]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=10), U64)
def test_the_first_stray_id(ids: list[int], limit: int) -> None:
    wanted = next((k for k, i in enumerate(ids) if i % (1 << 64) >= limit), len(ids))
    assert _core.first_stray(np.array(ids, np.int64), limit) == wanted


def test_all_copy_variants_copy_blocks() -> None:
    source = np.random.default_rng(3).integers(0, 256, (16, 4096), np.uint8)
    ids, ids_back = np.arange(16)[::-1].copy(), np.arange(16)
    assert _core.copy_variants()[0] == "memcpy"
    assert _core.nt_variant() in _core.copy_variants()
    for variant in _core.copy_variants():
        target = np.zeros_like(source)
        _core.copy_blocks(variant, target.ctypes.data, ids, source.ctypes.data, ids_back, 4096)
        assert np.array_equal(target, source[::-1])
        _core.copy(variant, target.ctypes.data, source.ctypes.data, source.nbytes)
        assert np.array_equal(target, source)
    with pytest.raises(ValueError, match="no copy variant"):
        _core.copy("abacus", 0, 0, 0)


def test_a_descriptor_is_found_by_where_it_begins_or_by_what_it_holds() -> None:
    d = _core.Descriptors(rows((100, 900, 50), (120, 800, 10), (120, 700, 90)))
    assert [d.first_at(_core.LOCAL, at) for at in (100, 119, 120, 125, 160, 210)] == [
        0,
        0,
        1,
        0,
        2,
        None,
    ]
    assert [d.first_at(_core.REMOTE, at) for at in (949, 800, 789, 799)] == [0, 1, 2, None]
