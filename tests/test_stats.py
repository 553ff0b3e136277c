"""Sums over transfers, and how a transfer is settled."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from kvferry import _core
from kvferry.stats import Stats, Times, snapshot


def flight(
    engines: _core.CopyEngines, pieces: int, length: int, *, copy: bool = True
) -> _core.Flight:
    memory = np.ones((2, pieces, length), np.uint8)
    at = np.arange(pieces, dtype=np.uint64) * np.uint64(length)
    base = np.uint64(memory.ctypes.data)
    rows = np.stack([base + at, base + np.uint64(pieces * length) + at, at * 0 + length], axis=1)
    d, done = _core.Descriptors(rows.astype(np.uint64)), _core.Done(engines)
    made = _core.Flight("channel", _core.WRITE, memory, d, done)
    if copy:
        engines.copy_inline(_core.WRITE, d, done)
    return made


@pytest.fixture
def engines() -> _core.CopyEngines:
    return _core.CopyEngines(1)


@pytest.fixture
def line() -> Iterator[tuple[_core.PeerWatch, socket.socket]]:
    """A watch over a connection, and the peer's end of it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield _core.PeerWatch(None, ours.fileno()), theirs


Line = tuple[_core.PeerWatch, socket.socket]


def test_nothing_yet() -> None:
    never = Times(0, 0.0, 0.0)
    assert snapshot(_core.Tally()) == Stats(never, never, 0, 0, 0, 0, 0, 0)


def test_sums(engines: _core.CopyEngines, line: Line) -> None:
    tally = _core.Tally()
    flights = [flight(engines, pieces, 1000) for pieces in (1, 5, 3)]
    for each in flights:
        assert each.land(line[0], tally)
        assert each.land(line[0], tally)  # counted once
    stats = snapshot(tally)
    assert (stats.transfers.count, stats.bytes, stats.descriptors) == (3, 9000, 9)
    assert (stats.inline_copies, stats.stream_submissions) == (3, 0)
    seconds = [each.done.elapsed_ns / 1e9 for each in flights]
    assert stats.transfers.total == pytest.approx(sum(seconds))
    assert stats.transfers.longest == pytest.approx(max(seconds))
    moving = [each.done.moving_ns / 1e9 for each in flights]
    assert all(0 < part <= whole for part, whole in zip(moving, seconds, strict=True))
    assert stats.copies == Times(3, pytest.approx(sum(moving)), pytest.approx(max(moving)))


def test_stats_of_two_channels_are_joined() -> None:
    one = Stats(Times(2, 3.0, 2.0), Times(2, 2.0, 1.5), 10, 2, 5, 1, 0, 0)
    other = Stats(Times(1, 4.0, 4.0), Times(1, 1.0, 1.0), 20, 3, 0, 0, 2, 4)
    joined = one.join(other)
    assert joined == Stats(Times(3, 7.0, 4.0), Times(3, 3.0, 1.5), 30, 5, 5, 1, 2, 4)
    assert "30 bytes in 5 descriptors, 5 staged" in joined.describe()


def test_only_what_landed_counts(engines: _core.CopyEngines, line: Line) -> None:
    watch, theirs = line
    tally = _core.Tally()
    pending = flight(engines, 1, 10, copy=False)
    assert not pending.land(watch, tally)
    assert pending.state == _core.PENDING
    failed = flight(engines, 1, 10)
    failed.done.fail(_core.ABORTED)
    assert not failed.land(watch, tally)
    complete = flight(engines, 1, 10)
    theirs.close()
    # Complete, but the peer is gone: where the bytes went cannot be known.
    assert watch.gone()
    assert not complete.land(watch, tally)
    assert snapshot(tally).transfers.count == 0
    assert complete.end("lost")
    assert not complete.end("again")
    assert (complete.state, complete.failure) == (_core.ENDED, "lost")
    assert not complete.land(watch, tally)


def test_a_watch_sees_a_process_end(line: Line) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    pidfd = os.pidfd_open(child)
    try:
        watch = _core.PeerWatch(pidfd, line[0].sock)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        assert watch.gone()
        assert not line[0].gone()
        line[0].lost = True
        assert line[0].gone()
    finally:
        os.close(pidfd)


def test_what_was_lent_is_given_back_once(engines: _core.CopyEngines) -> None:
    made = flight(engines, 1, 10)
    made.lent = ["slot"]
    assert made.take_lent() == ["slot"]
    assert made.take_lent() is None
