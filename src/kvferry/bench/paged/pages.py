"""Scattered pages of one request between two processes: by batches of layouts.batch, made before or
for each request, by those of the bench, and by a bare loop; as many bytes of each, in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

import msgspec

from ...batch import Batch
from ...engine import Report
from ...paged import LayoutRecord, layouts
from ...path import LinkKind
from ..cases import Case, Plan, cases
from ..lane import Lane
from ..layouts import Ids, model
from ..limit import Limit
from ..session import Session
from ..target import REGION
from ..timing import Pass, timed
from ..verify import Verdict
from ..walk import Walk
from ..yardsticks import yardstick

__all__ = ["PagesRow", "measure_pages"]

PATH = "fabric/inline"
REQUESTS = 64, 512  # blocks, of 16 tokens; at most half a side and 256 MiB
ROUNDS = 7
RECORDS = {
    "smollm2-135m": LayoutRecord("smollm2-135m", "", 30, 3, 64, "bfloat16", 16),
    "llama-3-8b": LayoutRecord("llama-3-8b", "", 32, 8, 128, "bfloat16", 16),
}


class PagesRow(msgspec.Struct, frozen=True):
    """One layout and direction: medians of so many passes of each, in GB/s.

    made_gbps    layouts.batch and the transfer, for each request of `blocks` blocks
    gbps         the transfer alone
    engine_gbps  likewise with the batches of kvferry bench layout
    limit_gbps   the fastest bare loop
    made_ratio   made_gbps / engine_gbps; ratio: gbps / engine_gbps
    batch_us     what layouts.batch takes of a request
    verified     every byte of one more pass of it was where it belongs, and no other had changed
    """

    layout: str
    op: str
    page: int
    blocks: int
    pieces: int
    passes: int
    made_gbps: float
    gbps: float
    engine_gbps: float
    limit_gbps: float
    made_ratio: float
    ratio: float
    batch_us: float
    verified: bool


class Pages:
    """Requests of a case, as blocks of two pools whose memory is both sides."""

    def __init__(self, case: Case, session: Session) -> None:
        record = RECORDS[str(case.layout)]
        self.lane = Lane(case, session)
        self._walk = Walk(case.layout, case.slots)
        theirs = self.lane.channel.regions[REGION]
        self._ours = layouts.split(record, case.slots, [session.region])
        self._theirs = layouts.split(record, case.slots, [theirs])
        self._limit = Limit(session.size, yardstick(LinkKind.FABRIC))
        self._steps = case.passes()
        self.batching: list[int] = []

    def move(self, steps: list[Ids]) -> Pass:
        return timed(self._one, [self._walk.slots_of(each) for each in steps])

    def verify(self) -> Verdict:
        """Poison the destination, move one pass, compare every byte."""
        seed, steps = self.lane.poison(), next(self._steps)
        self.move(steps)
        return self.lane.check(seed, steps)

    def turns(self) -> list[Callable[[], float]]:
        """GB/s of a pass: as in a row. None moves what another just did."""
        lane, case = self.lane, self.lane.case
        lane.poison()  # the source has its pattern, and all of both sides was touched
        threads = lane.threads()
        moves = (lane.moves(steps) for steps in case.passes())
        best = self._limit.best("", case.op, lane.at, moves, threads)

        def bare() -> float:
            todo = lane.moves(next(self._steps))
            taken = self._limit.copy(best, case.op, lane.at, todo, threads)
            return sum(move.bytes for move in todo) / taken / 1e9

        return [
            lambda: self.move(next(self._steps)).gbps,
            lambda: timed(lane.call, self._batches(next(self._steps))).gbps,
            lambda: timed(lane.call, lane.batches(next(self._steps))).gbps,
            bare,
        ]

    def close(self) -> None:
        self._limit.close()

    def _one(self, slots: tuple[Ids, Ids]) -> Report:
        begin = time.perf_counter_ns()
        batch = self._batch(*slots)
        self.batching.append(time.perf_counter_ns() - begin)
        return self.lane.call(batch)

    def _batches(self, steps: list[Ids]) -> list[Batch]:
        return [self._batch(*self._walk.slots_of(each)) for each in steps]

    def _batch(self, ours: Ids, theirs: Ids) -> Batch:
        return layouts.batch(self._ours, ours, self._theirs, theirs)


def measure_pages(session: Session, seconds: float) -> Iterator[PagesRow]:
    """A row for each model and direction. Blocks for about `seconds` each."""
    models = tuple(map(model, RECORDS))
    plan = Plan(models, (PATH,), ("write", "read"), REQUESTS, (1,), seconds)
    for case in cases(plan, session.size):
        pages = Pages(case, session)
        try:
            yield _row(case, pages, seconds)
        finally:
            pages.close()


def _row(case: Case, pages: Pages, seconds: float) -> PagesRow:
    speeds: list[list[float]] = [[], [], [], []]
    turns = list(zip(speeds, pages.turns(), strict=True))
    for _, turn in turns:
        turn()  # not counted: it finds caches and page tables cold
    end = time.monotonic() + seconds
    while len(speeds[0]) < ROUNDS or time.monotonic() < end:
        for kept, turn in turns:
            kept.append(turn())
        turns.append(turns.pop(0))  # another one begins
    made, gbps, engine, limit = map(median, speeds)
    return PagesRow(
        layout=str(case.layout),
        op=case.op,
        page=case.layout.slot_bytes,
        blocks=case.batch,
        pieces=case.layout.pieces,
        passes=len(speeds[0]),
        made_gbps=round(made, 3),
        gbps=round(gbps, 3),
        engine_gbps=round(engine, 3),
        limit_gbps=round(limit, 3),
        made_ratio=round(made / engine, 3),
        ratio=round(gbps / engine, 3),
        batch_us=round(median(pages.batching) / 1e3, 1),
        verified=pages.verify().good,
    )
