"""Which slots a pass moves. Pure.

One permutation of the whole side is walked through, pass after pass, so that a slot comes again
only when all others were: what was moved a moment ago has left the caches by then. A slot moves to
where the permutation stands half a side later:

    order    7  2  5  0  4  1  3  6        step 0 moves local slot 7 to remote slot 4,
             '-----------^                 step 1 local 2 to remote 1, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np

from .layouts import Ids, Layout, spread

__all__ = ["Move", "Walk", "cap_batch", "join", "pass_batches", "trace_passes", "walk_passes"]

PASS_BYTES = 256 << 20
PASS_PIECES = 1 << 16
PASS_BATCHES = 1024
SEED = 20


class Move(NamedTuple):
    """Equal blocks: number local[i] of our side and number remote[i] of theirs, for all i.

    base   where block 0 lies in either side, in bytes
    block  bytes
    total  blocks the side has there
    """

    base: int
    block: int
    total: int
    local: Ids
    remote: Ids

    @property
    def bytes(self) -> int:
        return self.block * len(self.local)


class Walk:
    """The permutation of a side of `slots` slots."""

    def __init__(self, layout: Layout, slots: int) -> None:
        self.layout = layout
        self.slots = slots
        self._order = np.random.default_rng(SEED).permutation(slots).astype(np.int64)

    def slots_of(self, steps: Ids) -> tuple[Ids, Ids]:
        """Which slots of our side these steps move to, or from, which of theirs."""
        there = (steps + self.slots // 2) % self.slots
        return self._order[steps % self.slots], self._order[there]

    def moves(self, steps: Ids) -> list[Move]:
        """What these steps of the walk move: one entry for every part of the layout."""
        local, remote = self.slots_of(steps)
        return [
            Move(
                base,
                part.block,
                part.pieces * self.slots,
                spread(part, self.slots, local),
                spread(part, self.slots, remote),
            )
            for part, base in zip(self.layout.parts, self.layout.bases(self.slots), strict=True)
        ]


def cap_batch(batch: int, layout: Layout, slots: int, threads: int = 1) -> int:
    """At most half a side, and no more than one pass holds when every thread gets one."""
    return max(
        1,
        min(
            batch,
            slots // max(2, threads),
            PASS_BYTES // layout.slot_bytes // threads,
            PASS_PIECES // layout.pieces // threads,
        ),
    )


def pass_batches(layout: Layout, batch: int, slots: int, threads: int = 1) -> int:
    """How many batches make a pass, equally many a thread: no slot comes twice in one."""
    most = min(slots, PASS_BYTES // layout.slot_bytes, PASS_PIECES // layout.pieces)
    return threads * max(1, min(most // batch, PASS_BATCHES) // threads)


def walk_passes(batch: int, batches: int) -> Iterator[list[Ids]]:
    """Steps of the walk, batch by batch; endless."""
    start = 0
    while True:
        yield [np.arange(start + n * batch, start + (n + 1) * batch) for n in range(batches)]
        start += batches * batch


def trace_passes(requests: Iterable[Ids], batch: int, batches: int) -> Iterator[list[Ids]]:
    """Requests in their order, each cut into batches; every pass comes twice.

    A trace goes where it goes, so a case and its limit cannot each take the next pass: they take
    the same one.
    """
    cut = (ids[at : at + batch] for ids in requests for at in range(0, len(ids), batch))
    while steps := list(islice(cut, batches)):
        yield from repeat(steps, 2)


def join(steps: list[Ids]) -> Ids:
    """A pass as one batch."""
    return np.concatenate(steps)
