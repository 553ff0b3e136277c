"""What a call costs over two paths that a table of bandwidth says little of, once a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np

from ..batch import Batch
from ..engine import Channel
from ..errors import PathRefused
from .lane import batch_of
from .layouts import plain
from .session import Session
from .socket_limit import SocketLimit
from .target import REGION
from .walk import Walk

__all__ = ["PathCosts", "measure_path_costs"]

BLOCK = 4 << 10
PAIRS = 4096
CALLS = 500
TURNS = 8
DEPTH = 8
ROUNDS = 40
CLOCK = time.CLOCK_THREAD_CPUTIME_ID


class PathCosts(NamedTuple):
    """Microseconds; None where the path is refused.

    submit_one_us   processor time of the thread that submits one descriptor to a coprocessor that
                    is awake: the later ones of several batches submitted one behind the other
    submit_many_us  the same with 4,096 descriptors
    tcp_write_us    p50 of a synchronous write of 4 KiB over tcp/host
    round_trip_us   p50 of 4 KiB sent by a bare blocking C loop and one byte back
    """

    submit_one_us: float | None
    submit_many_us: float | None
    tcp_write_us: float | None
    round_trip_us: float | None


def measure_path_costs(session: Session) -> PathCosts:
    """Blocks for about a second."""
    return PathCosts(*_submitting(session), *_round_trips(session))


def _submitting(session: Session) -> tuple[float | None, float | None]:
    channel = _channel(session, "fabric/coprocessor")
    if channel is None:
        return None, None
    costs = []
    for pairs in (1, min(PAIRS, session.size // BLOCK)):
        batch = _batch(session, channel, pairs)
        costs.append(_median_us([each for _ in range(ROUNDS) for each in _burst(channel, batch)]))
    one, many = costs
    return one, many


def _burst(channel: Channel, batch: Batch) -> list[int]:
    """Nanoseconds of each submission but the first, which may have to wake the engines."""
    taken, flying = [], []
    for _ in range(DEPTH):
        begin = time.clock_gettime_ns(CLOCK)
        flying.append(channel.write_async(batch))
        taken.append(time.clock_gettime_ns(CLOCK) - begin)
    for transfer in flying:
        transfer.wait()
    return taken[1:]


def _round_trips(session: Session) -> tuple[float | None, float | None]:
    """In turns, so that both see the same machine."""
    channel = _channel(session, "tcp/host")
    if channel is None:
        return None, None
    batch = _batch(session, channel, 1)
    ours, bare = [], []
    with SocketLimit(BLOCK) as limit:
        for turn in range(TURNS + 1):
            taken = [_timed(lambda: channel.write(batch)) for _ in range(CALLS)]
            round_trip = limit.round_trip(BLOCK, CALLS)
            if turn:  # the first is not counted: it finds both ends cold
                ours += taken
                bare.append(round_trip)
    return _median_us(ours), round(median(bare) * 1e6, 2)


def _channel(session: Session, path: str) -> Channel | None:
    try:
        return session.channel(path, 1)
    except PathRefused:
        return None


def _batch(session: Session, channel: Channel, pairs: int) -> Batch:
    walk = Walk(plain(BLOCK), session.size // BLOCK)
    session.overwritten(ours=False)
    return batch_of(session.region, channel.regions[REGION], walk.moves(np.arange(pairs)))


def _median_us(taken: list[int]) -> float:
    return round(median(taken) / 1e3, 2)


def _timed(what: Callable[[], object]) -> int:
    begin = time.perf_counter_ns()
    what()
    return time.perf_counter_ns() - begin
