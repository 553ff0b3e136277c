"""Which cases a run has. Pure: decided from what was asked for and the size of a side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..path import PRESETS, SubmitterKind
from ..path import parse as parse_path
from .layouts import Ids, Layout
from .shares import Pattern, shares
from .sizes import format_size
from .trace import forever
from .walk import PASS_BYTES, cap_batch, pass_batches, trace_passes, walk_passes

__all__ = ["OPS", "Case", "Plan", "cases"]

OPS = ("write", "read")


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for.

    layouts  what a slot is, each in turn
    paths    names of presets, or link/submitter/staging
    batches  slots a call
    streams  a transfer under a path with streams
    seconds  of measuring, a case; five pairs are made in any case
    trace    whose requests are moved; None: one permutation of the side is walked through
    threads  that submit on one channel at the same time, each its own batches
    pattern  between several processes, `peers` of the kind it multiplies; None: one pair
    """

    layouts: tuple[Layout, ...]
    paths: tuple[str, ...]
    ops: tuple[str, ...]
    batches: tuple[int, ...]
    streams: tuple[int, ...]
    seconds: float
    trace: Path | None = None
    threads: int = 1
    pattern: Pattern | None = None
    peers: int = 1


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement, one row of the table.

    path     as it was asked for
    op       write or read
    slots    a side has
    batch    slots a call
    streams  a transfer is cut over; 1 where its caller or a coprocessor copies
    threads  that submit on one channel
    """

    path: str
    op: str
    layout: Layout
    slots: int
    batch: int
    streams: int
    trace: Path | None
    threads: int = 1

    @property
    def preset(self) -> str | None:
        return self.path if self.path in PRESETS else None

    def passes(self) -> Iterator[list[Ids]]:
        """Steps of the walk to move, from the first on, batch by batch; endless."""
        batches = pass_batches(self.layout, self.batch, self.slots, self.threads)
        if self.trace is None:
            return walk_passes(self.batch, batches)
        return trace_passes(forever(self.trace), self.batch, batches)

    def __str__(self) -> str:
        return f"{self.op} {self.path} {self.layout} x {self.batch}, {self.streams} streams"


def cases(plan: Plan, size: int) -> list[Case]:
    """Every case once, in an order that changes the direction only once.

    Raises UsageError for unknown words and for blocks that a side of `size` bytes has no room for.
    """
    share, *_ = shares(plan.pattern, plan.peers, size)
    return list(dict.fromkeys(_cases(plan, share.size)))


def _cases(plan: Plan, size: int) -> Iterator[Case]:
    for op in plan.ops:
        if op not in OPS:
            raise UsageError(f"unknown op {op!r}: know {', '.join(OPS)}", cause="op")
        for path in plan.paths:
            for layout in plan.layouts:
                slots = _slots(layout, size, plan.threads)
                for batch in plan.batches:
                    capped = cap_batch(batch, layout, slots, plan.threads)
                    for streams in _streams(path, plan.streams):
                        yield Case(
                            path, op, layout, slots, capped, streams, plan.trace, plan.threads
                        )


def _slots(layout: Layout, size: int, threads: int) -> int:
    if layout.slot_bytes > PASS_BYTES:
        raise UsageError(
            f"block {layout} is above {format_size(PASS_BYTES)}, which a pass may move",
            cause="size",
        )
    slots, least = size // layout.slot_bytes, max(2, threads)
    if slots < least:
        raise UsageError(
            f"a side of {format_size(size)} has no room for {'two' if least == 2 else least} "
            f"blocks of {format_size(layout.slot_bytes)}",
            cause="size",
        )
    return slots


def _streams(path: str, wanted: tuple[int, ...]) -> tuple[int, ...]:
    submitters = {each.submitter for each in parse_path(path)}
    single = submitters == {SubmitterKind.INLINE} or SubmitterKind.COPROCESSOR in submitters
    return (1,) if single else wanted
