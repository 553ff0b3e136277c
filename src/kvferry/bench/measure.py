"""Measures one case: passes of it and of the limit in turn, then one more pass that is verified."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from ..path import parse
from .cases import Case
from .crew import Crew
from .orders import Prepared, What
from .result import Row, path_fields
from .timing import Pass, join
from .verify import Verdict

__all__ = ["Tally", "measure", "take_turns", "verify_case"]

PAIRS = 5


@dataclass
class Tally:
    """What the passes of a case and of its limit came to."""

    passes: list[Pass] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)


def measure(case: Case, crew: Crew, seconds: float) -> Row:
    """The row of `case`. Blocks for about `seconds` and the time it takes to verify a pass."""
    found = crew.prepare(case)
    cpu = crew.target_cpu()
    tally = _pairs(crew, seconds)
    cpu = crew.target_cpu() - cpu
    callers = crew.lanes * case.threads
    return _row(case, found, tally, callers, cpu, verify_case(crew))


def verify_case(crew: Crew) -> Verdict:
    """Of the case that was prepared: poison the destination, move one pass, compare every byte."""
    crew.go(What.CHECKED)
    return crew.check()


def _pairs(crew: Crew, seconds: float) -> Tally:
    crew.go(What.CASE)  # not counted: it finds caches and page tables cold
    return take_turns(lambda: crew.go(What.CASE), lambda: crew.go(What.LIMIT), seconds)


def take_turns(measured: Callable[[], Pass], limit: Callable[[], Pass], seconds: float) -> Tally:
    """Passes of what is measured and of its limit; who begins changes from pair to pair."""
    tally = Tally()

    def time_measured() -> None:
        tally.passes.append(measured())

    def time_limit() -> None:
        tally.limits.append(limit().gbps)

    end = time.monotonic() + seconds
    while len(tally.passes) < PAIRS or time.monotonic() < end:
        pair = (time_limit, time_measured)
        for step in pair if len(tally.passes) % 2 else reversed(pair):
            step()
    return tally


def _row(
    case: Case, found: Prepared, tally: Tally, callers: int, target_cpu: float, verdict: Verdict
) -> Row:
    sums, speeds = join(tally.passes), [each.gbps for each in tally.passes]
    p50, p99 = np.percentile(sums.calls, [50, 99]) / 1e3
    gbps, limit_gbps = median(speeds), median(tally.limits)
    (path,) = parse(found.path)
    return Row(
        path=path_fields(path),
        preset=case.preset,
        op=case.op,
        layout=case.layout.name,
        block=case.layout.slot_bytes,
        batch=case.batch,
        streams=case.streams,
        callers=callers,
        threads=found.threads,
        repeats=len(speeds),
        bytes=sums.bytes,
        gbps=round(gbps, 3),
        gbps_min=round(min(speeds), 3),
        gbps_max=round(max(speeds), 3),
        limit_gbps=round(limit_gbps, 3),
        limit=found.limit,
        limit_variant=found.variant,
        ratio=round(gbps / limit_gbps, 3),
        p50_us=round(float(p50), 2),
        p99_us=round(float(p99), 2),
        verified=verdict.good,
        staged_bytes=sums.staged,
        submissions=sums.submissions,
        cpu_s={"initiator": round(sums.cpu, 4), "target": round(target_cpu, 4)},
    )
