from __future__ import annotations

import errno

import numpy as np
import pytest

from kvferry import _core
from kvferry.bench.layouts import Layout, Part
from kvferry.bench.socket_limit import SocketLimit, connected_pair
from kvferry.bench.walk import Move, Walk
from kvferry.errors import PeerError

LAYOUT = Layout(None, (Part(64, 2), Part(4096, 1)))
SLOTS = 16
SIZE = LAYOUT.slot_bytes * SLOTS


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, SIZE, np.uint8)


def whole(there: np.ndarray) -> list[Move]:
    """All of a side to the same place, back and forth."""
    ids = np.arange(len(there) // 64, dtype=np.int64)
    return [Move(0, 64, len(ids), ids, ids)]


def moved(moves: list[Move], op: str, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    source, to = (ours, theirs) if op == "write" else (theirs, ours)
    wanted = to.copy()
    for move in moves:
        from_ids, to_ids = (move.local, move.remote) if op == "write" else (move.remote, move.local)
        for a, b in zip(from_ids, to_ids, strict=True):
            begin, end = move.base + int(a) * move.block, move.base + int(b) * move.block
            wanted[end : end + move.block] = source[begin : begin + move.block]
    return wanted


@pytest.mark.parametrize("op", ["write", "read"])
def test_moves_what_the_case_moves(op: str) -> None:
    moves = Walk(LAYOUT, SLOTS).moves(np.arange(5))
    with SocketLimit(SIZE) as limit:
        for batches in (1, 2, 5, 100):
            ours, theirs = noise(batches), noise(1000 + batches)
            wanted = moved(moves, op, ours, theirs)
            limit.copy("write", theirs.ctypes.data, whole(theirs), 3)
            assert limit.copy(op, ours.ctypes.data, moves, batches) > 0
            limit.copy("read", theirs.ctypes.data, whole(theirs), 1)
            assert ((theirs if op == "write" else ours) == wanted).all()


def test_a_round_trip_takes_time_and_leaves_the_line_clean() -> None:
    with SocketLimit(SIZE) as limit:
        assert 0 < limit.round_trip(64, repeats=20) < 1
        assert limit.round_trip(4096, repeats=20) > 0
        there, back = noise(3), np.zeros(SIZE, np.uint8)
        limit.copy("write", there.ctypes.data, whole(there), 1)
        limit.copy("read", back.ctypes.data, whole(back), 1)
        assert (back == there).all()


def test_says_so_when_the_other_end_is_gone() -> None:
    with SocketLimit(SIZE) as limit:
        limit._process.kill()
        limit._process.wait()
        with pytest.raises(PeerError):
            limit.round_trip(64)


def test_a_hang_up_under_way_is_an_errno() -> None:
    near, far = connected_pair()
    ids, memory = np.arange(4, dtype=np.int64), np.zeros(256, np.uint8)
    with near:
        far.close()
        assert (
            _core.socket_receive_blocks(near.fileno(), memory.ctypes.data, ids, 64, 4)
            == errno.ECONNRESET
        )
