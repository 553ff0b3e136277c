"""Compares paths that differ in one thing each: one pair of processes, one memory, one walk.

Passes of all variants are made in turns, so that whatever else the machine does meanwhile falls on
all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from ..engine import Engine
from ..errors import PathRefused, UsageError
from . import keys
from .cases import Case
from .comparison import Comparison, Grant, Refused, VariantRow
from .lane import Lane
from .layouts import Ids, Layout, plain
from .machine import read_machine
from .parties import Clocks, read_clocks
from .recovery import measure_recovery
from .result import describe
from .session import Session, open_session, pool
from .sizes import format_size
from .timing import Pass, join, timed
from .variants import VARIANTS, Variant
from .walk import cap_batch

__all__ = ["compare"]

LARGE = 1 << 20

# op, bytes of a block, blocks a call
SHAPES = (("write", 4 << 10, 1), ("write", LARGE, 128), ("read", LARGE, 128))

ROUNDS = 5
CONNECTS = 5
REGISTER_BYTES = 16 << 20

Say = Callable[[str], None]


@dataclass
class Contestant:
    """A variant on its three lanes, and what its passes came to."""

    variant: Variant
    small: Lane
    write: Lane
    read: Lane
    connect_ms: float
    calls: list[int] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    clocks: Clocks = field(default_factory=Clocks)
    passes: list[Pass] = field(default_factory=list)


def compare(
    size: int, layout: Layout | None, seconds: float, say: Say = lambda stage: None
) -> Comparison:
    """Blocks for about `seconds` a variant, and as long again for keys and recoveries.

    layout  whose slots are the keys of the second table; None: one that fits
    say     is told what comes next

    Raises UsageError for a side of `size` bytes that has no room for two blocks.
    """
    layout = layout or keys.key_layout(size)
    slots = _slots(layout, size)
    _slots(plain(LARGE), size)
    with open_session(size) as session:
        say("connecting")
        entered, refused = _enter(session)
        say("moving blocks")
        _compete(entered, session, seconds)
        say("moving keys")
        lanes = {e.variant.name: _key_lane(e.variant, layout, slots, session) for e in entered}
        table, staged = keys.measure_keys(lanes)
        unverified = [name for name, lane in lanes.items() if not lane.verify().good]
        say("killing targets")
        rows = [_row(each, session, staged[each.variant.name]) for each in entered]
        return Comparison(
            machine=describe(read_machine(), pool(session)),
            settings={
                "size": size,
                "seconds": seconds,
                "layout": str(layout),
                "key_bytes": layout.slot_bytes,
                "slots": slots,
            },
            variants=rows,
            refused=refused,
            keys=table,
            unverified_keys=unverified,
        )


def _slots(layout: Layout, size: int) -> int:
    slots = size // layout.slot_bytes
    if slots < 2:
        raise UsageError(
            f"a side of {format_size(size)} has no room for two blocks of "
            f"{format_size(layout.slot_bytes)}",
            cause="size",
        )
    return slots


def _enter(session: Session) -> tuple[list[Contestant], list[Refused]]:
    """Connect over every variant; what this machine refuses is kept with its reason."""
    entered, refused = [], []
    for variant in VARIANTS:
        try:
            entered.append(_contestant(variant, session))
        except PathRefused as error:
            reason = "; ".join(error.rejected.values())
            refused.append(Refused(variant.name, variant.varies, reason))
        except UsageError as error:
            refused.append(Refused(variant.name, variant.varies, str(error)))
    return entered, refused


def _contestant(variant: Variant, session: Session) -> Contestant:
    connects = [_connect_ms(variant, session) for _ in range(CONNECTS)]
    small, write, read = (Lane(_case(variant, *shape, session.size), session) for shape in SHAPES)
    return Contestant(variant, small, write, read, round(median(connects), 3))


def _connect_ms(variant: Variant, session: Session) -> float:
    begin = time.perf_counter()
    with session.channel(variant.path, variant.streams):
        return (time.perf_counter() - begin) * 1e3


def _case(variant: Variant, op: str, block: int, batch: int, size: int) -> Case:
    layout, slots = plain(block), size // block
    capped = cap_batch(batch, layout, slots)
    return Case(variant.path, op, layout, slots, capped, variant.streams, None)


def _key_lane(variant: Variant, layout: Layout, slots: int, session: Session) -> Lane:
    batch = keys.key_batch(slots)
    return Lane(Case(variant.path, "write", layout, slots, batch, variant.streams, None), session)


def _compete(entered: Sequence[Contestant], session: Session, seconds: float) -> None:
    """Rounds in which every contestant makes one pass of each kind; who begins changes."""
    session.overwritten(True)
    session.overwritten(False)
    walks = [[lane.case.passes() for lane in _lanes(each)] for each in entered]
    for each, passes in zip(entered, walks, strict=True):
        for lane, steps in zip(_lanes(each), passes, strict=True):
            timed(lane.call, lane.batches(next(steps)))  # finds caches and page tables cold
    rounds, end = 0, time.monotonic() + seconds * len(entered)
    while rounds < ROUNDS or time.monotonic() < end:
        for turn in range(len(entered)):
            number = (turn + rounds) % len(entered)
            _make_passes(entered[number], walks[number], session)
        rounds += 1


def _lanes(each: Contestant) -> tuple[Lane, Lane, Lane]:
    return each.small, each.write, each.read


def _make_passes(each: Contestant, walks: Sequence[Iterator[list[Ids]]], session: Session) -> None:
    small, write, read = (
        lane.batches(next(steps)) for lane, steps in zip(_lanes(each), walks, strict=True)
    )
    quick = timed(each.small.call, small)
    before = read_clocks(session)
    written = timed(each.write.call, write)
    fetched = timed(each.read.call, read)
    each.clocks = each.clocks.plus(read_clocks(session).since(before))
    each.calls += quick.calls
    each.writes.append(written.gbps)
    each.reads.append(fetched.gbps)
    each.passes += [written, fetched]


def _row(each: Contestant, session: Session, staged: int) -> VariantRow:
    variant, moved = each.variant, join(each.passes)
    p50, p99 = np.percentile(each.calls, [50, 99]) / 1e3
    verified = [lane.verify().good for lane in _lanes(each)]
    allocate_ms, register_ms, grant = _memory(session.engine)
    return VariantRow(
        variant=variant.name,
        varies=variant.varies,
        path=str(each.write.channel.path),
        streams=variant.streams,
        p50_us=round(float(p50), 2),
        p99_us=round(float(p99), 2),
        write_gbps=round(median(each.writes), 3),
        read_gbps=round(median(each.reads), 3),
        cpu=each.clocks.per_gigabyte(moved.bytes),
        connect_ms=each.connect_ms,
        allocate_ms=allocate_ms,
        register_ms=register_ms,
        grant=grant,
        recovery=measure_recovery(session.engine, variant),
        staged_bytes=moved.staged + staged,
        submissions=moved.submissions,
        verified=all(verified),
    )


def _memory(engine: Engine) -> tuple[float, float, Grant]:
    """Milliseconds to allocate a region and to register a buffer, and what the region obtained."""
    begin = time.perf_counter()
    region = engine.allocate("allocated", REGISTER_BYTES)
    allocated = time.perf_counter()
    engine.unregister(region)
    assert region.grant is not None
    grant = Grant(region.grant.asked, region.grant.granted, region.grant.huge)
    buffer = np.zeros(REGISTER_BYTES, np.uint8)
    again = time.perf_counter()
    foreign = engine.register("registered", buffer)
    registered = time.perf_counter()
    engine.unregister(foreign)
    return (
        round((allocated - begin) * 1e3, 3),
        round((registered - again) * 1e3, 3),
        grant,
    )
