"""Completion lines, gates and streams as Python sees them."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from kvferry import _core

SECOND = 1_000_000_000
PATIENCE = 20 * SECOND


def soon() -> int:
    return _core.now() + 2_000_000


@pytest.fixture
def engines() -> _core.CopyEngines:
    return _core.CopyEngines(1)


def test_a_line_is_quiet_when_every_word_is_there(engines: _core.CopyEngines) -> None:
    done = _core.Done(engines)
    done.spread(3)
    for word in (2, 0):
        done.finish(word)
        assert not done.quiet
        assert not done.wait(soon())
    done.finish(1)
    assert done.quiet
    assert done.wait(0)
    assert done.outcome == _core.OK
    assert 0 < done.elapsed_ns < PATIENCE


def test_the_first_failure_stays(engines: _core.CopyEngines) -> None:
    done = _core.Done(engines)
    done.fail(_core.EXPIRED)
    done.fail(_core.ABORTED)
    done.finish(0)
    assert done.outcome == _core.EXPIRED


def test_a_line_used_again_knows_nothing_of_before(engines: _core.CopyEngines) -> None:
    for _ in range(5):
        done = _core.Done(engines)
        assert (done.quiet, done.outcome) == (False, _core.OK)
        done.abort()
        done.fail(_core.ABORTED)
        done.spread(2)
        done.finish(0)
        done.finish(1)
        assert done.quiet
        del done


def test_an_unfinished_line_is_never_used_again(engines: _core.CopyEngines) -> None:
    """A copy engine may still complete it: it would complete somebody else's transfer."""
    data = np.ones(64, np.uint8)
    rows = np.array([[data.ctypes.data, data.ctypes.data + 32, 16]], np.uint64)
    lost = _core.Done(engines)
    lost.abort()
    del lost
    done = _core.Done(engines)
    engines.copy_inline(_core.WRITE, _core.Descriptors(rows), done)
    assert done.outcome == _core.OK


def test_many_wait_for_one_line(engines: _core.CopyEngines) -> None:
    done = _core.Done(engines)
    answers: list[bool] = []
    waiters = [
        threading.Thread(target=lambda: answers.append(done.wait(_core.now() + PATIENCE)))
        for _ in range(6)
    ]
    for waiter in waiters:
        waiter.start()
    done.finish(0)
    for waiter in waiters:
        waiter.join()
    assert answers == [True] * 6


def test_an_eventfd_is_written_when_quiet(engines: _core.CopyEngines) -> None:
    bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    try:
        done = _core.Done(engines)
        done.spread(2)
        done.notify(bell)
        done.finish(0)
        with pytest.raises(BlockingIOError):
            os.eventfd_read(bell)
        done.finish(1)
        assert os.eventfd_read(bell) == 1
    finally:
        os.close(bell)


def test_a_gate_counts_closes_and_drains() -> None:
    gate = _core.Gate()
    assert gate.enter() == gate.enter() == _core.ENTERED
    assert gate.inside == 2
    assert gate.close()
    assert not gate.close()
    assert gate.enter() == _core.CLOSED
    assert not gate.drain(soon())
    leaver = threading.Thread(target=lambda: (gate.leave(), gate.leave()))
    leaver.start()
    assert gate.drain(_core.now() + PATIENCE)
    leaver.join()
    assert gate.inside == 0


def test_a_forked_gate_forgets_and_refuses() -> None:
    gate = _core.Gate()
    gate.enter()
    gate.fork()
    assert (gate.inside, gate.enter(), gate.inside) == (0, _core.FORKED, 0)
    assert gate.drain(0)


def test_a_full_ring_refuses(engines: _core.CopyEngines) -> None:
    """No engine runs, so nothing is taken out; stop has nothing to wait for."""
    data = np.ones(64, np.uint8)
    rows = np.array([[data.ctypes.data, data.ctypes.data + 32, 16]], np.uint64)
    run, done, stream = _core.Descriptors(rows), _core.Done(engines), _core.Stream(engines)
    taken = 0
    while stream.copy(_core.WRITE, run, done):
        taken += 1
    assert taken == 64
    assert not stream.flag(done, 0)
    assert (done.stream_submissions, stream.busy, done.quiet) == (0, False, False)


def test_a_stream_keeps_order_and_settles() -> None:
    engines = _core.CopyEngines(2)
    assert engines.start() == 0
    data = np.zeros((32, 4096), np.uint8)
    data[0] = 7
    stream, done = _core.Stream(engines), _core.Done(engines)
    runs = []
    for step in range(31):
        addresses = [data[step].ctypes.data, data[step + 1].ctypes.data, 4096]
        runs.append(_core.Descriptors(np.array([addresses], np.uint64)))
        assert stream.copy(_core.WRITE, runs[-1], done)
    assert stream.flag(done, 0)
    assert done.wait(_core.now() + PATIENCE)
    assert (data == 7).all()
    assert stream.settle(_core.now() + PATIENCE)
    assert not stream.busy
    assert engines.bytes == 31 * 4096
    engines.stop()
