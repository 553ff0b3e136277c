"""All that one replay was asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .figures import Figures, figures_of
from .progress import Watcher, watched
from .real import Measured, replay_at, replay_embedded
from .simulate import Hits, Ratios, simulate
from .trace import Trace

__all__ = ["Plan", "Result", "Row", "run", "write_json"]


@dataclass(frozen=True)
class Plan:
    """policies    names, each with each of
    capacities  in blocks
    size        bytes of a block in a real store; None: simulate alone
    at          address of that store; None: one of this process, of each policy and capacity
    speed       times the speed at which requests came; 0: one right after the other
    """

    policies: tuple[str, ...]
    capacities: tuple[int, ...]
    size: int | None = None
    at: str | None = None
    speed: float = 1.0


@dataclass(frozen=True)
class Row:
    """where    "simulated", "real", or the address of the store; capacity 0: whatever it has
    seconds  that this took
    same     did the store hit what the simulation did, request by request? None: not compared
    """

    where: str
    policy: str
    capacity: int
    prefix: float
    block: float
    token: float
    seconds: float
    same: bool | None = None
    measured: Measured | None = None


class Result(NamedTuple):
    file: str
    figures: Figures
    rows: list[Row]


def run(file: Path, trace: Trace, plan: Plan) -> Result:
    """Simulate, and replay for real where that is asked for. Raises what these raise."""
    pairs = len(plan.policies) * len(plan.capacities)
    embedded = plan.size is not None and plan.at is None
    with watched(len(trace), pairs * (1 + embedded) + (plan.at is not None)) as watcher:
        return Result(str(file), figures_of(trace), list(_rows(trace, plan, watcher)))


def _rows(trace: Trace, plan: Plan, watcher: Watcher) -> Iterator[Row]:
    if plan.at is not None and plan.size is not None:
        began = time.perf_counter()
        real = replay_at(trace, plan.at, plan.size, plan.speed, watcher(plan.at))
        yield _row(plan.at, real.hits, trace, began, measured=real.measured, policy="its own")
    for policy in plan.policies:
        for capacity in plan.capacities:
            yield from _pair(trace, plan, policy, capacity, watcher)


def _pair(trace: Trace, plan: Plan, policy: str, capacity: int, watcher: Watcher) -> Iterator[Row]:
    began, tick = time.perf_counter(), watcher(f"{policy} {capacity}")
    hits = simulate(trace, policy, capacity, tick)
    yield _row("simulated", hits, trace, began)
    if plan.size is not None and plan.at is None:
        began = time.perf_counter()
        real = replay_embedded(trace, policy, capacity, plan.size, plan.speed, tick)
        yield _row("real", real.hits, trace, began, _same(real.hits, hits), real.measured)


def _row(
    where: str,
    hits: Hits,
    trace: Trace,
    began: float,
    same: bool | None = None,
    measured: Measured | None = None,
    policy: str | None = None,
) -> Row:
    ratios: Ratios = hits.ratios(trace)
    seconds = time.perf_counter() - began
    return Row(where, policy or hits.policy, hits.capacity, *ratios, seconds, same, measured)


def _same(one: Hits, other: Hits) -> bool:
    return np.array_equal(one.prefix, other.prefix) and np.array_equal(one.block, other.block)


def write_json(result: Result, file: Path) -> None:
    text = json.dumps(
        {
            "file": result.file,
            "trace": _plain(result.figures),
            "rows": [_plain_row(row) for row in result.rows],
        },
        indent=1,
    )
    file.write_text(f"{text}\n")


def _plain_row(row: Row) -> dict[str, Any]:
    measured = None if row.measured is None else row.measured._asdict()
    return {**asdict(row), "measured": measured}


def _plain(figures: Figures) -> dict[str, Any]:
    return {
        name: value._asdict() if hasattr(value, "_asdict") else value
        for name, value in figures._asdict().items()
    }
