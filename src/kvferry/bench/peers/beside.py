"""The rows of other packages: each beside the limit of memory, right after our row of the same
blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from statistics import median

import numpy as np

from ..cases import Case
from ..crew import Crew
from ..measure import Tally, take_turns
from ..orders import Prepared, What
from ..result import Row
from ..timing import join
from ..verify import Verdict
from ..walk import Walk
from .asked import Asked
from .pair import Calls, Pair, open_pair

__all__ = ["Beside", "open_beside"]

# What a peer is measured against: one thread that copies between two mappings.
MAPPED = "fabric/inline"


class Beside:
    """The pairs of a run."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = pairs
        self._done: set[Case] = set()

    def rows(self, case: Case, crew: Crew, seconds: float) -> list[Row]:
        """One of each package, unless blocks like those of `case` were moved already.

        Blocks for about `seconds` a package, and the time it takes to verify a pass.
        """
        same = replace(case, path=MAPPED, streams=1)
        if same in self._done:
            return []
        self._done.add(same)
        return [_measure(same, pair, crew, seconds) for pair in self._pairs]


@contextmanager
def open_beside(asked: Sequence[Asked], size: int) -> Iterator[Beside]:
    """Start every package with `size` bytes a side. All of it is gone after the block.

    Raises UsageError where one is not installed, PeerError when one does not start.
    """
    with ExitStack() as stack:
        yield Beside([stack.enter_context(open_pair(each, size)) for each in asked])


def _measure(case: Case, pair: Pair, crew: Crew, seconds: float) -> Row:
    limit = crew.prepare(case)
    passes = _passes(case)
    pair.run(case.op, next(passes))  # not counted: it connects, and finds caches cold
    cpu = pair.target_cpu
    tally = take_turns(
        lambda: pair.run(case.op, next(passes)), lambda: crew.go(What.LIMIT), seconds
    )
    cpu = pair.target_cpu - cpu
    verdict = pair.verify(case.op, next(_passes(case)))
    return _row(case, pair.asked, limit, tally, cpu, verdict)


def _passes(case: Case) -> Iterator[Calls]:
    walk = Walk(case.layout, case.slots)
    for steps in case.passes():
        yield [walk.moves(each) for each in steps]


def _row(
    case: Case, asked: Asked, limit: Prepared, tally: Tally, target_cpu: float, verdict: Verdict
) -> Row:
    sums, speeds = join(tally.passes), [each.gbps for each in tally.passes]
    p50, p99 = np.percentile(sums.calls, [50, 99]) / 1e3
    gbps, limit_gbps = median(speeds), median(tally.limits)
    return Row(
        path={"peer": asked.name, "transport": asked.transport},
        preset=None,
        op=case.op,
        layout=case.layout.name,
        block=case.layout.slot_bytes,
        batch=case.batch,
        streams=1,
        callers=1,
        threads=1,
        repeats=len(speeds),
        bytes=sums.bytes,
        gbps=round(gbps, 3),
        gbps_min=round(min(speeds), 3),
        gbps_max=round(max(speeds), 3),
        limit_gbps=round(limit_gbps, 3),
        limit=limit.limit,
        limit_variant=limit.variant,
        ratio=round(gbps / limit_gbps, 3),
        p50_us=round(float(p50), 2),
        p99_us=round(float(p99), 2),
        verified=verdict.good,
        staged_bytes=0,
        submissions={},
        cpu_s={"initiator": round(sums.cpu, 4), "target": round(target_cpu, 4)},
    )
