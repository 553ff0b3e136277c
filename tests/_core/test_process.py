"""The mover between two processes, mostly with this process on both sides of it."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvferry import _core
from kvferry.testing import Child, Parent

PAGE = 4096
MIB = 1 << 20
PR_SET_DUMPABLE = 4
UNWATCHED = _core.PeerWatch(None, None)

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.signedinteger[Any]]


@pytest.fixture
def engines() -> Iterator[_core.CopyEngines]:
    engines = _core.CopyEngines(1)
    yield engines
    engines.stop()


@pytest.fixture
def gone(spawn: Callable[..., Child]) -> int:
    """The number of a process that has ended and was waited for."""
    child = spawn(nothing)
    child.result()
    return child.pid


def nothing(_parent: Parent) -> None:
    pass


def noise(seed: int, size: int) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def rows(here: int, there: int, ours: Ids, theirs: Ids, length: int) -> npt.NDArray[np.uint64]:
    """Piece `theirs[i]` of the remote side for piece `ours[i]` of the local one."""
    columns = (here + ours * length, there + theirs * length, np.full(len(ours), length))
    return np.stack(columns, axis=1).astype(np.uint64)


def move(
    engines: _core.CopyEngines,
    op: int,
    array: npt.NDArray[np.uint64],
    pid: int | None = None,
    watch: _core.PeerWatch = UNWATCHED,
    deadline: int | None = None,
) -> int:
    """The outcome of one copy in this thread."""
    d, done = _core.Descriptors(array), _core.Done(engines)
    d.via(_core.ProcessMover(os.getpid() if pid is None else pid, watch))
    engines.copy_inline(op, d, done, deadline)
    assert done.quiet
    return done.outcome


@pytest.mark.parametrize(
    ("count", "length"),
    [(1, 1), (3, 7), (3000, 5), (1024, 1024), (1025, 1024), (64, 65_536), (3, MIB), (2, MIB + 9)],
)
def test_pieces_arrive_and_come_back(engines: _core.CopyEngines, count: int, length: int) -> None:
    here, there = noise(1, count * length), np.zeros(count * length, np.uint8)
    random = np.random.default_rng(count)
    ours, theirs = random.permutation(count), random.permutation(count)
    array = rows(here.ctypes.data, there.ctypes.data, ours, theirs, length)
    assert move(engines, _core.WRITE, array) == _core.OK
    moved = here.reshape(count, length)
    assert np.array_equal(there.reshape(count, length)[theirs], moved[ours])
    before = here.copy()
    here[:] = 0
    assert move(engines, _core.READ, array) == _core.OK
    assert np.array_equal(here, before)


def test_an_empty_run_is_over_at_once(engines: _core.CopyEngines) -> None:
    assert move(engines, _core.READ, np.zeros((0, 3), np.uint64)) == _core.OK


@pytest.fixture
def half() -> Iterator[tuple[int, Bytes]]:
    """An address range of which only the first half is there, 2 MiB each; and that half."""
    code, address = _core.vm_reserve(4 * MIB, PAGE)
    assert code == 0
    fd = os.memfd_create("half")
    os.ftruncate(fd, 2 * MIB)
    assert _core.vm_map(fd, 0, 2 * MIB, address, True) == 0
    os.close(fd)
    memory = (ctypes.c_uint8 * (2 * MIB)).from_address(address)
    yield address, np.frombuffer(memory, np.uint8)
    _core.vm_release(address, 4 * MIB)


@pytest.mark.parametrize("op", [_core.WRITE, _core.READ])
@pytest.mark.parametrize("length", [100, PAGE, 48 << 10, 4 * MIB])
def test_memory_that_is_not_there_is_a_fault(
    engines: _core.CopyEngines, half: tuple[int, Bytes], op: int, length: int
) -> None:
    """Of either side; what lies before it may have moved."""
    there, present = half
    count = 4 * MIB // length
    here, ids = noise(2, 4 * MIB), np.arange(count)
    before = here.copy()
    array = rows(here.ctypes.data, there, ids, ids, length)
    assert move(engines, op, array) == _core.FAULT
    if op == _core.WRITE:
        assert np.array_equal(present[:MIB], here[:MIB])
    else:
        assert not here[:MIB].any()
        assert np.array_equal(here[2 * MIB :], before[2 * MIB :])
    swapped = array[:, [1, 0, 2]].copy()
    assert move(engines, op, swapped) == _core.FAULT


def test_a_process_that_ended_is_lost(engines: _core.CopyEngines, gone: int) -> None:
    here = noise(3, 100)
    address = here.ctypes.data
    array = np.array([[address, address, 100]], np.uint64)
    for op in (_core.WRITE, _core.READ):
        assert move(engines, op, array, gone) == _core.LOST


def test_nothing_moves_once_the_watch_says_so(engines: _core.CopyEngines) -> None:
    watch = _core.PeerWatch(None, None)
    watch.lost = True
    here, there = noise(4, 100), np.zeros(100, np.uint8)
    array = np.array([[here.ctypes.data, there.ctypes.data, 100]], np.uint64)
    assert move(engines, _core.WRITE, array, watch=watch) == _core.LOST
    assert not there.any()


def test_a_watched_process_that_ended_is_lost(
    engines: _core.CopyEngines, spawn: Callable[..., Child]
) -> None:
    """Its number is ours here, as if it had been given away: nothing of the stranger changes."""
    child = spawn(nothing)
    pidfd = os.pidfd_open(child.pid)
    try:
        child.result()
        watch = _core.PeerWatch(pidfd, None)
        here, there = noise(5, 100), np.zeros(100, np.uint8)
        array = np.array([[here.ctypes.data, there.ctypes.data, 100]], np.uint64)
        assert move(engines, _core.WRITE, array, watch=watch) == _core.LOST
        assert not there.any()
    finally:
        os.close(pidfd)


def test_a_deadline_that_passed_moves_nothing(engines: _core.CopyEngines) -> None:
    here, there = noise(6, 100), np.zeros(100, np.uint8)
    array = np.array([[here.ctypes.data, there.ctypes.data, 100]], np.uint64)
    assert move(engines, _core.WRITE, array, deadline=1) == _core.EXPIRED
    assert not there.any()


def test_a_word_of_a_process_is_read(gone: int) -> None:
    word = np.array([1 << 63 | 5], np.uint64)
    code, found = _core.process_read(os.getpid(), word.ctypes.data, 8)
    assert (code, found) == (0, word.tobytes())
    assert _core.process_read(os.getpid(), PAGE, 8) == (errno.EFAULT, b"")
    assert _core.process_read(gone, word.ctypes.data, 8) == (errno.ESRCH, b"")


def test_what_a_process_says_of_itself(spawn: Callable[..., Child]) -> None:
    before, hidden, admitted = spawn(describe_itself).result()
    assert (before, hidden) == (True, False)
    assert admitted == 0 or not os.path.exists("/proc/sys/kernel/yama")


def describe_itself(_parent: Parent) -> tuple[bool, bool, int]:
    admitted = _core.process_admit_all()
    before = _core.process_dumpable()
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    return before, _core.process_dumpable(), admitted


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize(
    ("count", "block", "batch"), [(5, 3, 2), (3000, 8, 5000), (130, PAGE, 128), (3, MIB + 1, 128)]
)
def test_the_bare_loop_moves_the_same(count: int, block: int, batch: int, write: bool) -> None:
    source, target = noise(7, count * block), np.zeros(count * block, np.uint8)
    random = np.random.default_rng(8)
    to, source_ids = random.permutation(count), random.permutation(count)
    code = _core.process_blocks(
        os.getpid(), target.ctypes.data, to, source.ctypes.data, source_ids, block, batch, write
    )
    assert code == 0
    blocks = target.reshape(count, block)[to]
    assert np.array_equal(blocks, source.reshape(count, block)[source_ids])


def test_the_bare_loop_says_why_it_stopped(gone: int) -> None:
    ids = np.arange(2)
    target = np.zeros(2 * PAGE, np.uint8)
    address = target.ctypes.data
    loop = _core.process_blocks
    assert loop(gone, address, ids, address, ids, PAGE, 2, False) == errno.ESRCH
    assert loop(os.getpid(), address, ids, PAGE, ids, PAGE, 2, False) == errno.EFAULT
