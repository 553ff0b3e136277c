"""Measures one case: passes of it and of the limit in turn, then one more pass that is verified."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import numpy as np

from ..batch import Batch
from ..engine import Report
from .cases import Case
from .lane import Lane
from .limit import Limit
from .result import Row, path_fields
from .session import Session
from .verify import Landing, Verdict
from .walk import Move

__all__ = ["measure", "verify_case"]

PAIRS = 5


class Pass(NamedTuple):
    """One timed pass: seconds in all, of processor time, nanoseconds of each call, its reports."""

    seconds: float
    cpu: float
    calls: list[int]
    reports: list[Report]

    @property
    def gbps(self) -> float:
        return sum(report.bytes for report in self.reports) / self.seconds / 1e9


@dataclass
class Tally:
    """What the passes of a case and of its limit came to."""

    gbps: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    cpu: float = 0.0
    bytes: int = 0
    staged: int = 0
    inline: int = 0
    stream: int = 0

    def add(self, timed: Pass) -> None:
        self.gbps.append(timed.gbps)
        self.calls += timed.calls
        self.cpu += timed.cpu
        for report in timed.reports:
            self.bytes += report.bytes
            self.staged += report.staged_bytes
            self.inline += report.inline_copies
            self.stream += report.stream_submissions


def measure(case: Case, session: Session, limit: Limit, seconds: float) -> Row:
    """The row of `case`. Blocks for about `seconds` and the time it takes to verify a pass."""
    lane = Lane(case, session)
    writes = case.op == "write"
    session.overwritten(not writes)
    session.pattern(writes, lane.channel)
    target = session.side(False, lane.channel)
    threads = lane.threads()
    trials = (lane.moves(steps) for steps in case.passes())
    key = (case.layout.parts, threads)
    variant = limit.best(key, case.op, lane.at, trials, threads)
    cpu = target.cpu()

    def copy(moves: Sequence[Move]) -> float:
        return limit.copy(variant, case.op, lane.at, moves, threads)

    tally = _pairs(lane, copy, seconds)
    cpu = target.cpu() - cpu
    return _row(lane, tally, variant, threads, cpu, verify_case(case, session))


def verify_case(case: Case, session: Session) -> Verdict:
    """Poison the destination, move one pass, compare every byte where it arrived."""
    lane = Lane(case, session)
    writes = case.op == "write"
    seed = session.pattern(writes, lane.channel)
    session.overwritten(not writes)
    destination = session.side(not writes, lane.channel)
    destination.poison()
    steps = next(case.passes())
    for batch in lane.batches(steps):
        lane.call(batch)
    return destination.check([_landing(case.op, move) for move in lane.moves(steps)], seed)


def _pairs(lane: Lane, copy: Callable[[Sequence[Move]], float], seconds: float) -> Tally:
    """Passes of the case and of the limit, in turn; who begins changes from pair to pair."""
    tally, passes = Tally(), lane.case.passes()

    def time_case() -> None:
        tally.add(_timed(lane.call, lane.batches(next(passes))))

    def time_limit() -> None:
        moves = lane.moves(next(passes))
        tally.limits.append(sum(move.bytes for move in moves) / copy(moves) / 1e9)

    _timed(
        lane.call, lane.batches(next(passes))
    )  # not counted: it finds caches and page tables cold
    end = time.monotonic() + seconds
    while len(tally.gbps) < PAIRS or time.monotonic() < end:
        pair = (time_limit, time_case)
        for step in pair if len(tally.gbps) % 2 else reversed(pair):
            step()
    return tally


def _timed(call: Callable[[Batch], Report], batches: Sequence[Batch]) -> Pass:
    """One call after the other; each waits until its bytes are visible."""
    calls, reports = [], []
    clock = time.perf_counter_ns
    cpu = time.process_time()
    first = clock()
    for batch in batches:
        begin = clock()
        report = call(batch)
        calls.append(clock() - begin)
        reports.append(report)
    taken = clock() - first
    return Pass(taken / 1e9, time.process_time() - cpu, calls, reports)


def _row(
    lane: Lane, tally: Tally, variant: str, threads: int, target_cpu: float, verdict: Verdict
) -> Row:
    case = lane.case
    p50, p99 = np.percentile(tally.calls, [50, 99]) / 1e3
    gbps, limit_gbps = median(tally.gbps), median(tally.limits)
    return Row(
        path=path_fields(lane.channel.path),
        preset=case.preset,
        op=case.op,
        layout=case.layout.name,
        block=case.layout.slot_bytes,
        batch=case.batch,
        streams=case.streams,
        threads=threads,
        repeats=len(tally.gbps),
        bytes=tally.bytes,
        gbps=round(gbps, 3),
        gbps_min=round(min(tally.gbps), 3),
        gbps_max=round(max(tally.gbps), 3),
        limit_gbps=round(limit_gbps, 3),
        limit_variant=variant,
        ratio=round(gbps / limit_gbps, 3),
        p50_us=round(float(p50), 2),
        p99_us=round(float(p99), 2),
        verified=verdict.good,
        staged_bytes=tally.staged,
        submissions={"inline": tally.inline, "stream": tally.stream},
        cpu_s={"initiator": round(tally.cpu, 4), "target": round(target_cpu, 4)},
    )


def _landing(op: str, move: Move) -> Landing:
    to, source = (move.remote, move.local) if op == "write" else (move.local, move.remote)
    return Landing(move.base, move.block, move.total, to.tobytes(), source.tobytes())
