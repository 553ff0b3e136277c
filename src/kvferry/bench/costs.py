"""What a call costs beside the copying: measured on blocks of 4 KiB, once a run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from .. import _core
from ..batch import Batch
from ..engine import Channel
from ..memory import RegionTable, resolve
from .lane import batch_of
from .layouts import plain
from .path_costs import measure_path_costs
from .result import Costs
from .session import Session
from .target import REGION
from .walk import Walk

__all__ = ["PATH", "measure_costs"]

PATH = "fabric/inline"
BLOCK = 4 << 10
PAIRS = 4096
REPEATS = 101
CALLS = 4096
GROUP = 64
MANY = 1_000_000
IMPORTS = 3

TIMED_IMPORT = """
import time
begin = time.perf_counter()
import kvferry
print(time.perf_counter() - begin)
"""


def measure_costs(session: Session, memory: dict[str, int], calls: int = MANY) -> Costs:
    """Blocks for a few seconds. `memory` is what was seen of it so far; `calls` are made to see it
    grow.
    """
    paths = measure_path_costs(session)
    channel = session.channel(PATH, 1)
    session.overwritten(ours=False)
    walk = Walk(plain(BLOCK), session.size // BLOCK)
    bare, inline = _call_costs(session, channel, walk)
    growth = _growth(session, channel, walk, calls)
    build, resolved = _batch_costs(session, channel, walk)
    return Costs(
        build_us=build,
        resolve_us=resolved,
        import_s=round(min(_import_seconds() for _ in range(IMPORTS)), 4),
        bare_copy_us=bare,
        inline_us=inline,
        memory_bytes=memory,
        growth_calls=calls,
        growth_bytes=growth,
        paths=paths._asdict(),
    )


def _batch_costs(session: Session, channel: Channel, walk: Walk) -> tuple[float, float]:
    """Microseconds to build a batch of 4,096 pairs, and to resolve it."""
    ours, theirs = session.region, channel.regions[REGION]
    (move,) = walk.moves(np.arange(PAIRS))
    batch = batch_of(ours, theirs, [move])
    local: RegionTable[Any] = RegionTable()
    remote: RegionTable[Any] = RegionTable()
    local.add(ours)
    remote.add(theirs)

    def resolve_once() -> None:
        resolve(_core.WRITE, batch, local.spans, remote.spans, channel.peer).release()

    def build_once() -> None:
        Batch.blocks(ours, move.local, theirs, move.remote, move.block)

    return _median_us(build_once, REPEATS), _median_us(resolve_once, REPEATS)


def _call_costs(session: Session, channel: Channel, walk: Walk) -> tuple[float, float]:
    """Median microseconds of a bare copy and of an inline write, in turns, on blocks of the walk.

    The blocks come from DRAM, the batches were made a moment ago.
    """
    ours, theirs = session.region, channel.regions[REGION]
    bare: list[int] = []
    inline: list[int] = []
    for step in range(0, 2 * CALLS, 2 * GROUP):
        (move,) = walk.moves(np.arange(step, step + GROUP))
        sources = (ours.address + move.local * BLOCK).tolist()
        places = (theirs.span.here + move.remote * BLOCK).tolist()
        batches = [
            batch_of(ours, theirs, walk.moves(np.array([step + GROUP + n]))) for n in range(GROUP)
        ]
        for source, place, batch in zip(sources, places, batches, strict=True):
            bare.append(_timed(_core.copy_bare, place, source, BLOCK))
            inline.append(_timed(channel.write, batch))
    return round(median(bare) / 1e3, 2), round(median(inline) / 1e3, 2)


def _growth(session: Session, channel: Channel, walk: Walk, calls: int) -> int:
    """Bytes by which both processes grew over so many writes, after some to warm up."""
    batch = batch_of(session.region, channel.regions[REGION], walk.moves(np.arange(1)))
    write = channel.write
    for _ in range(CALLS):
        write(batch)
    before = sum(session.memory().values())
    for _ in range(calls):
        write(batch)
    return sum(session.memory().values()) - before


def _import_seconds() -> float:
    run = subprocess.run(
        [sys.executable, "-c", TIMED_IMPORT], capture_output=True, check=True, timeout=60
    )
    return float(run.stdout)


def _median_us(what: Callable[[], object], repeats: int) -> float:
    return round(median(_timed(what) for _ in range(repeats)) / 1e3, 2)


def _timed(what: Callable[..., object], *arguments: object) -> int:
    """Nanoseconds of one call."""
    begin = time.perf_counter_ns()
    what(*arguments)
    return time.perf_counter_ns() - begin
