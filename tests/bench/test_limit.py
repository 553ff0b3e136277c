from __future__ import annotations

import os
from itertools import repeat

import numpy as np
import pytest

from kvferry import _core
from kvferry.bench.layouts import Layout, Part
from kvferry.bench.limit import Limit
from kvferry.bench.walk import Move, Walk
from kvferry.bench.yardsticks import (
    MEMORY,
    PROCESS_VM,
    SOCKET,
    YARDSTICKS,
    Reach,
    Yardstick,
    yardstick,
)
from kvferry.errors import Unsupported
from kvferry.path import LinkKind

LAYOUT = Layout(None, (Part(64, 2), Part(4096, 1)))
SLOTS = 16


@pytest.fixture
def sides() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    size = LAYOUT.slot_bytes * SLOTS
    return random.integers(0, 256, size, np.uint8), random.integers(0, 256, size, np.uint8)


def reach(sides: tuple[np.ndarray, np.ndarray]) -> Reach:
    """Both sides in this process, which the kernel lets us reach like any other."""
    ours, theirs = (side.ctypes.data for side in sides)
    return Reach(local=ours, mapped=theirs, remote=theirs, pid=os.getpid())


def moved(op: str, moves: list[Move], sides: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """What the destination holds when `moves` were carried out, block by block."""
    ours, theirs = sides
    source, to = (ours, theirs) if op == "write" else (theirs, ours)
    wanted = to.copy()
    for move in moves:
        from_ids, to_ids = (move.local, move.remote) if op == "write" else (move.remote, move.local)
        for a, b in zip(from_ids, to_ids, strict=True):
            begin, end = move.base + int(a) * move.block, move.base + int(b) * move.block
            wanted[end : end + move.block] = source[begin : begin + move.block]
    return wanted


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("by", "variant"),
    [(by, variant) for by in (MEMORY, PROCESS_VM) for variant in by.variants],
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.parametrize("op", ["write", "read"])
def test_moves_what_the_case_moves(
    op: str, by: Yardstick, variant: str, threads: int, sides: tuple[np.ndarray, np.ndarray]
) -> None:
    moves = Walk(LAYOUT, SLOTS).moves(np.arange(5))
    wanted = moved(op, moves, sides)
    with Limit(sides[0].nbytes, by) as limit:
        assert limit.copy(variant, op, reach(sides), moves, threads) > 0
    assert (sides[op == "write"] == wanted).all()


def test_sockets_are_one_a_thread_and_few(sides: tuple[np.ndarray, np.ndarray]) -> None:
    moves = Walk(LAYOUT, SLOTS).moves(np.arange(5))
    with Limit(sides[0].nbytes, SOCKET) as limit:
        jobs = limit.jobs("blocking", "read", reach(sides), moves, 3, batches=2)
        passes = [job() for job in jobs]
    assert len(jobs) == SOCKET.threads == 2
    assert sum(each.bytes for each in passes) == 5 * LAYOUT.slot_bytes
    assert all(each.seconds > 0 for each in passes)


def test_a_process_that_is_gone_is_an_error(sides: tuple[np.ndarray, np.ndarray]) -> None:
    moves = Walk(LAYOUT, SLOTS).moves(np.arange(5))
    nobody = reach(sides)._replace(pid=1 << 22)
    with Limit(sides[0].nbytes, PROCESS_VM) as limit, pytest.raises(ProcessLookupError):
        limit.copy("16", "write", nobody, moves, 1)


def test_every_link_has_its_yardstick() -> None:
    names = {kind.value: by.name for kind, by in YARDSTICKS.items()}
    assert names == {
        "loopback": "memcpy/nt",
        "fabric": "memcpy/nt",
        "cma": "process_vm loop",
        "tcp": "socket loop",
    }
    assert set(YARDSTICKS) == set(LinkKind) - {LinkKind.HIXL}  # a vendor's engine is no bare loop
    with pytest.raises(Unsupported, match="hixl"):
        yardstick(LinkKind.HIXL)


def test_chooses_once_for_a_key(sides: tuple[np.ndarray, np.ndarray]) -> None:
    moves = Walk(LAYOUT, SLOTS).moves(np.arange(5))
    with Limit(sides[0].nbytes) as limit:
        best = limit.best("key", "write", reach(sides), repeat(moves), 1)
        assert best in _core.copy_variants()
        assert limit.best("key", "read", reach(sides), [], 1) == best
