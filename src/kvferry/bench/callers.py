"""Everything in one process that calls: threads on the channels of its sessions, together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import NamedTuple

import msgspec

from ..path import LinkKind
from .cases import Case
from .lane import Lane
from .layouts import Ids
from .limit import Limit
from .orders import Prepared, What
from .session import Session
from .timing import Pass, deal, join, timed, wait_until
from .verify import Verdict
from .verify import join as join_verdicts
from .yardsticks import yardstick

__all__ = ["Callers"]

# Each has a thread of its own: 64 on each of 16 channels.
MOST_THREADS = 1024

Job = Callable[[], Pass]


class Work(NamedTuple):
    """A case on its lanes, how far each has come in its walk, and what measures its limit."""

    case: Case
    lanes: list[Lane]
    passes: list[Iterator[list[Ids]]]
    limits: list[Limit]
    variant: str
    threads: int


class Callers:
    """The sessions of one process. On the channel of each call as many threads as a case says; one
    caller in all calls from the thread that this is used from. Close it.

    A pass is loaded, which may take its time, and then gone through at once.
    """

    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions = sessions
        self._limits: dict[tuple[LinkKind, int], Limit] = {}
        self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="caller")
        self._work: Work | None = None
        self._jobs: list[Job] = []
        self._arrivals: list[tuple[int, list[Ids]]] = []

    def connect(self, case: Case) -> None:
        """Raises PathRefused where a session has not got the path."""
        for session in self.sessions:
            session.channel(case.path, case.streams)

    def prepare(self, case: Case) -> Prepared:
        """Fill the sources, find out how many threads copy, choose the limit's variant."""
        lanes = [Lane(case, session) for session in self.sessions]
        for lane in lanes:
            lane.session.overwritten(lane.writes is False)
            lane.session.pattern(lane.writes, lane.channel)
        first = lanes[0]
        threads = first.threads()
        link = first.channel.path.link
        limits = [self._limit(link, number) for number in range(len(lanes))]
        trials = (first.moves(steps) for steps in case.passes())
        key = (case.layout.parts, threads)
        variant = limits[0].best(key, case.op, first.at, trials, threads)
        passes = [case.passes() for _ in lanes]
        self._work = Work(case, lanes, passes, limits, variant, threads)
        return Prepared(
            path=str(first.channel.path),
            threads=threads * len(lanes),
            limit=limits[0].by.name,
            variant=variant,
        )

    def load(self, what: What) -> None:
        """Make ready the next pass of the case that was prepared, or of its limit, or one that is
        to be checked.
        """
        assert self._work is not None
        self._jobs = list(_LOADS[what](self, self._work))

    def go(self, at: int | None) -> Pass:
        """Carry out what was loaded, from a moment in nanoseconds of the monotonic clock on."""
        if at is not None:
            wait_until(at)
        cpu = time.process_time()
        done = self._go()
        return msgspec.structs.replace(done, cpu=time.process_time() - cpu)

    def check(self) -> Verdict:
        """Compare every byte where the last pass should have come to."""
        assert self._work is not None
        arrived = zip(self._work.lanes, self._arrivals, strict=True)
        return join_verdicts([lane.check(seed, steps) for lane, (seed, steps) in arrived])

    def __enter__(self) -> Callers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown()
        for limit in self._limits.values():
            limit.close()

    def _go(self) -> Pass:
        if len(self._jobs) == 1:
            return self._jobs[0]()
        running = [self._pool.submit(job) for job in self._jobs]
        return join([each.result() for each in running])

    def _limit(self, link: LinkKind, lane: int) -> Limit:
        if (link, lane) not in self._limits:
            size = self.sessions[lane].size
            self._limits[link, lane] = Limit(size, yardstick(link))
        return self._limits[link, lane]

    def _load_case(self, work: Work) -> Iterator[Job]:
        for lane, passes in zip(work.lanes, work.passes, strict=True):
            yield from _calls(lane, next(passes))

    def _load_limit(self, work: Work) -> Iterator[Job]:
        case, threads = work.case, work.threads
        for lane, passes, limit in zip(work.lanes, work.passes, work.limits, strict=True):
            steps = next(passes)
            batches = max(1, len(steps) // threads)
            moves = lane.moves(steps)
            yield from limit.jobs(work.variant, case.op, lane.at, moves, threads, batches)

    def _load_checked(self, work: Work) -> Iterator[Job]:
        self._arrivals = []
        for lane in work.lanes:
            steps = next(work.case.passes())
            self._arrivals.append((lane.poison(), steps))
            yield from _calls(lane, steps)


_LOADS: dict[What, Callable[[Callers, Work], Iterator[Job]]] = {
    What.CASE: Callers._load_case,
    What.LIMIT: Callers._load_limit,
    What.CHECKED: Callers._load_checked,
}


def _calls(lane: Lane, steps: list[Ids]) -> Iterator[Job]:
    for hand in deal(lane.batches(steps), lane.case.threads):
        yield partial(timed, lane.call, hand)
