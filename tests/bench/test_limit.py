from __future__ import annotations

from itertools import repeat

import numpy as np
import pytest

from kvferry import _core
from kvferry.bench.layouts import Layout, Part
from kvferry.bench.limit import Limit, Mappings
from kvferry.bench.walk import Walk

LAYOUT = Layout(None, (Part(64, 2), Part(4096, 1)))
SLOTS = 16


@pytest.fixture
def sides() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    size = LAYOUT.slot_bytes * SLOTS
    return random.integers(0, 256, size, np.uint8), random.integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("variant", _core.copy_variants())
@pytest.mark.parametrize("op", ["write", "read"])
def test_copies_what_the_case_copies(
    op: str, variant: str, threads: int, sides: tuple[np.ndarray, np.ndarray]
) -> None:
    ours, theirs = sides
    moves = Walk(LAYOUT, SLOTS).moves(np.arange(5))
    source, to = (ours, theirs) if op == "write" else (theirs, ours)
    wanted = to.copy()
    for move in moves:
        from_ids, to_ids = (move.local, move.remote) if op == "write" else (move.remote, move.local)
        for a, b in zip(from_ids, to_ids, strict=True):
            begin, end = move.base + int(a) * move.block, move.base + int(b) * move.block
            wanted[end : end + move.block] = source[begin : begin + move.block]
    with Limit() as limit:
        taken = limit.copy(
            variant, op, Mappings(ours.ctypes.data, theirs.ctypes.data), moves, threads
        )
    assert taken > 0
    assert (to == wanted).all()


def test_chooses_once_for_a_key(sides: tuple[np.ndarray, np.ndarray]) -> None:
    at = Mappings(*(side.ctypes.data for side in sides))
    moves = Walk(LAYOUT, SLOTS).moves(np.arange(5))
    with Limit() as limit:
        best = limit.best("key", "write", at, repeat(moves), 1)
        assert best in _core.copy_variants()
        assert limit.best("key", "read", at, [], 1) == best
