"""Faults among threads: a copy is stopped beside others, many connect at once, all is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from ...engine import Channel
from ...errors import Cancelled, ClosedError, Error, Timeout
from .census import BLOCK, NEW, OLD, SIZE, census, pattern
from .duo import Duo

__all__ = ["abort_one_of_many", "close_amid_submitters", "connect_at_once"]

PATIENCE = 15.0
SHORT = 0.05
THREADS = 8
BLOCKS = SIZE // BLOCK


def abort_one_of_many(duo: Duo) -> None:
    """The first of three transfers is stopped in mid-copy; the others arrive, and so does more."""
    old, new = pattern(OLD), pattern(NEW)
    duo.there()[:], duo.here()[:] = old, new
    whole = duo.batch(0, BLOCKS)
    others = [duo.batch(1, BLOCKS // 4), duo.batch(BLOCKS // 4 + 1, BLOCKS // 2)]
    duo.hold(True)
    ends: list[Error] = []
    if str(duo.peer.path).split("/")[1] == "inline":
        stopped = _start(lambda: ends.append(_fail(lambda: duo.peer.write(whole, timeout=SHORT))))
        _until(lambda: duo.held == 1)
        time.sleep(SHORT)  # the deadline is in the past when the copy goes on
    else:
        transfer = duo.peer.write_async(whole)
        _until(lambda: duo.held == 1)
        transfer.cancel()
        stopped = _start(lambda: ends.append(_fail(lambda: transfer.wait(PATIENCE))))
    beside = [_start(partial(duo.peer.write, each, timeout=PATIENCE)) for each in others]
    duo.hold(False)
    for thread in (stopped, *beside):
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a call does not return"
    (end,) = ends
    assert isinstance(end, (Cancelled, Timeout)), repr(end)
    found = duo.there().copy()
    first, second = (each.reshape(-1, 2, BLOCK) for each in (found, new))
    half = BLOCKS // 4
    assert (first[:half, 1] == second[:half, 1]).all(), "the others lost bytes"
    first[:half, 1] = old.reshape(-1, 2, BLOCK)[:half, 1]
    count = census(found, old, new)
    assert count.clean, str(count)
    assert count.old, "it was not stopped"
    assert not duo.peer.closed
    duo.peer.write(whole, timeout=PATIENCE)
    assert (duo.there().reshape(-1, 2, BLOCK)[:, 0] == second[:, 0]).all()


def connect_at_once(duo: Duo) -> None:
    """Many threads connect to the same peer over the same path: they get the same channel."""
    duo.peer.close()
    gate = threading.Barrier(THREADS)
    channels: list[Channel] = []

    def connect() -> None:
        gate.wait(PATIENCE)
        channels.append(duo.connect())

    _join([_start(connect) for _ in range(THREADS)])
    assert len(channels) == THREADS
    assert len(set(channels)) == 1
    assert duo.ours._channels.live() == channels[:1]


def close_amid_submitters(duo: Duo) -> None:
    """The channel is closed while every thread writes its own part, over and over."""
    share = BLOCKS // THREADS
    finished, begun = [0] * THREADS, [0] * THREADS
    ends: list[Error] = []
    values = duo.here().reshape(THREADS, -1)

    def submit(n: int) -> None:
        batch = duo.batch(n * share, (n + 1) * share)
        try:
            while True:
                begun[n] = finished[n] % 250 + 1
                values[n] = begun[n]
                duo.peer.write(batch, timeout=PATIENCE)
                finished[n] = begun[n]
        except Error as error:
            ends.append(error)

    threads = [_start(partial(submit, n)) for n in range(THREADS)]
    _until(lambda: min(finished) > 0 or bool(ends))
    duo.peer.close()
    settled = duo.there().copy()
    _join(threads)
    assert len(ends) == THREADS
    assert all(isinstance(end, ClosedError) for end in ends), ends
    for n, part in enumerate(settled.reshape(THREADS, share // 2, 2, BLOCK)):
        assert np.isin(part[:, 0], (finished[n], begun[n])).all(), "neither old nor new"
        assert not part[:, 1].any(), "a byte outside the batch"
    assert np.array_equal(settled, duo.there()), "a byte landed after quiet"


def _fail(call: Callable[[], object]) -> Error:
    try:
        call()
    except Error as error:
        return error
    raise AssertionError("it did not fail")


def _start(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a call does not return"


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.001)
