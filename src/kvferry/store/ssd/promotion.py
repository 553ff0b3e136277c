"""Brings objects from the disk into memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._core import NODE
from ..answers import Answer, Answers, Cause, Digests
from ..catalog import Catalog
from ..table import IndexLike, Ints, Words
from .behind import Behind
from .log import Log
from .record import Verdict, segment_of
from .shelf import Records, past

__all__ = ["Promotion"]

READERS = 4  # reads that are under way for one asker
WORTH = 1 << 20  # bytes from which several readers pay
ASKERS = 8  # at once: each takes one of the threads that answer everybody who asks this process
ROUNDS = 8  # that an asker takes, at most, to see what others bring in

FOUND, ABSENT, BUSY = int(Answer.FOUND), int(Answer.ABSENT), int(Answer.BUSY)
RESERVED, PRESENT, OK = int(Answer.RESERVED), int(Answer.PRESENT), int(Verdict.OK)

NONE = np.empty(0, np.int64)

Digest = tuple[int, int]


@dataclass(eq=False)
class Reading:
    """What one asker reads, for whoever wants the same: a row for each record.

    attempts, offsets  where in the pool it is to lie
    over               it is in memory now, or will not be
    """

    records: Records
    attempts: Words
    offsets: Ints
    over: threading.Event = field(default_factory=threading.Event)

    def some(self, which: NDArray[np.bool_]) -> Reading:
        return Reading(self.records.some(which), self.attempts[which], self.offsets[which])


class Plan(NamedTuple):
    """answers  what can be said at once
    rows     of what is read, and the reading
    waiting  rows of what others read, and their readings, or what is being written still
    """

    answers: Answers
    rows: Ints
    mine: Reading | None
    waiting: Ints
    others: list[Reading]


class Promotion:
    """Thread-safe.

    lock   of the catalog; not held while the disk or another asker is waited for
    index  where objects stand in memory
    pool   address of the memory they lie in
    share  bytes that one asker brings in at a time; one object is never too much
    """

    def __init__(
        self,
        lock: AbstractContextManager[object],
        catalog: Catalog,
        behind: Behind,
        log: Log,
        now: Callable[[], int],
        *,
        index: IndexLike,
        pool: int,
        share: int,
    ) -> None:
        self._lock, self._catalog, self._behind, self._log = lock, catalog, behind, log
        self._now, self._index = now, index
        self._pool, self._share = np.uint64(pool), share
        self._under_way: dict[Digest, Reading] = {}
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="kvferry-disk")
        self._turn = threading.Condition()
        self._askers = 0
        self._over = False
        self.promoted = self.bytes = self.corrupt = self.failed = 0  # objects, and their bytes

    def fetch(self, digests: Digests, written: Callable[[], bool]) -> Answers:
        """FOUND: in memory. ABSENT. BUSY: ask again. Or why there is no room in memory.

        Blocks until what lies on the disk is read, by this asker or by another; BUSY at once where
        many do. `written` waits until something more is on the disk; False: for too long.
        """
        with self._turn:
            if self._over or self._askers == ASKERS:
                return np.full(len(digests), ABSENT if self._over else BUSY, np.uint8)
            self._askers += 1
        try:
            return self._fetch(digests, written)
        finally:
            with self._turn:
                self._askers -= 1
                self._turn.notify_all()

    def close(self) -> None:
        """When those who are at it have got theirs. Nothing is found any more."""
        with self._turn:
            self._over = True
            self._turn.wait_for(lambda: not self._askers)
        self._readers.shutdown()

    def _fetch(self, digests: Digests, written: Callable[[], bool]) -> Answers:
        answers = np.full(len(digests), BUSY, np.uint8)
        left = np.arange(len(digests))
        for _ in range(ROUNDS):
            with self._lock:
                plan = self._plan(np.ascontiguousarray(digests[left]))
            answers[left] = plan.answers
            again = plan.waiting
            if plan.mine is not None:
                said = self._carry_out(plan.mine)
                answers[left[plan.rows]] = said
                again = np.concatenate((again, plan.rows[said == BUSY]))
            left = left[again]
            if not len(left):
                break
            for other in plan.others:
                other.over.wait()
            if plan.mine is None and not plan.others and not written():
                break
        return answers

    # ---- steps, with the lock ----

    def _plan(self, digests: Digests) -> Plan:
        moments = self._catalog.moments()  # all that was stored is known now
        answers = np.full(len(digests), ABSENT, np.uint8)
        now, shelf = self._now(), self._behind.shelf
        slots = self._index.find(digests)
        there = slots >= 0
        if there.any():
            there[there] = ~past(moments[slots[there]], now)
            self._catalog.used(slots[there])
            answers[there] = FOUND
        slots = shelf.find(digests)
        here = np.flatnonzero((slots >= 0) & ~there)
        here = here[~shelf.over(slots[here], now)]
        if not len(here):
            return Plan(answers, NONE, None, NONE, [])
        answers[here] = BUSY
        others = self._others(digests[here])
        mine = np.array([other is None for other in others]) & shelf.lies(slots[here])
        if len(here) > 1:  # of a key that occurs twice, the first
            first = np.zeros(len(here), np.bool_)
            first[np.unique(slots[here], return_index=True)[1]] = True
            mine &= first
        rows, waiting, reading = here[mine], here[~mine], None
        if len(rows):
            rows, reading = self._reserve(rows, shelf.read(slots[rows]), answers, now)
        return Plan(answers, rows, reading, waiting, [each for each in others if each is not None])

    def _others(self, digests: Digests) -> list[Reading | None]:
        """Who reads each of these this moment."""
        if not self._under_way:
            return [None] * len(digests)
        return [self._under_way.get(name) for name in _names(digests)]

    def _reserve(
        self, rows: Ints, records: Records, answers: Answers, now: int
    ) -> tuple[Ints, Reading | None]:
        """Room for as many as are one asker's share; of those that get none, why."""
        fit = max(int(records.lengths.cumsum().searchsorted(np.uint64(self._share), "right")), 1)
        if fit < len(rows):
            rows, records = rows[:fit], records.some(np.arange(fit))
        given = self._catalog.reserve(NODE, records.lengths.view(np.int64), now)
        reading = Reading(records, given.attempts, given.offsets)
        reserved = given.answers == RESERVED
        if not reserved.all():
            answers[rows] = np.where(reserved, BUSY, given.answers)
            rows, reading = rows[reserved], reading.some(reserved)
        if not len(rows):
            return rows, None
        self._under_way.update(dict.fromkeys(_names(reading.records.digests), reading))
        return rows, reading

    def _bring_in(self, reading: Reading, verdicts: NDArray[np.uint8]) -> Answers:
        """What was read becomes objects, unless it has left the disk meanwhile. BUSY: it has moved
        there, and is to be read again."""
        records, shelf = reading.records, self._behind.shelf
        current = shelf.read(records.slots)
        here = current.generations == records.generations
        well = here & (verdicts == OK)
        if well.all():
            return self._commit(reading)
        answers = np.full(len(here), ABSENT, np.uint8)
        answers[well] = self._commit(reading.some(well))
        moved = here & ~well & (current.places != records.places)
        answers[moved] = BUSY
        bad = here & ~well & ~moved & (segment_of(records.places) != self._behind.going)
        failed = verdicts == Verdict.FAILED
        self._blame(records.digests[bad & failed], records.digests[bad & ~failed])
        return answers

    def _blame(self, unreadable: Digests, corrupt: Digests) -> None:
        self._catalog.note(unreadable, Cause.UNREADABLE)
        self._behind.bury(corrupt, Cause.CORRUPT)
        self._catalog.note(corrupt, Cause.CORRUPT)
        self.failed += len(unreadable)
        self.corrupt += len(corrupt)

    def _commit(self, reading: Reading) -> Answers:
        records = reading.records
        said = self._catalog.commit(
            NODE,
            reading.attempts,
            records.digests,
            records.lengths,
            self._now(),
            attrs=records.attrs,
            expires=records.moments,
        )
        stored = said <= PRESENT
        self._behind.shelf.used(records.slots[stored])
        self.promoted += int(stored.sum())
        self.bytes += int(records.lengths[stored].sum())
        return np.where(stored, FOUND, said).astype(np.uint8)

    # ---- steps, without ----

    def _carry_out(self, reading: Reading) -> Answers:
        try:
            verdicts = self._read(reading)
            with self._lock:
                return self._bring_in(reading, verdicts)
        finally:
            with self._lock:
                self._catalog.abort(NODE, reading.attempts)  # if it came to nothing
                for name in _names(reading.records.digests):
                    del self._under_way[name]
            reading.over.set()

    def _read(self, reading: Reading) -> NDArray[np.uint8]:
        """In the order in which it lies; a part of it each, where there is much."""
        records = reading.records
        if len(records.slots) == 1 or int(records.lengths.sum()) <= WORTH:
            return self._read_part(records, reading.offsets)
        parts = np.array_split(np.argsort(records.places), min(READERS, len(records.slots)))
        verdicts = np.empty(len(records.slots), np.uint8)
        jobs = [(records.some(part), reading.offsets[part]) for part in parts]
        waits = [self._readers.submit(self._read_part, *job) for job in jobs[1:]]
        try:
            verdicts[parts[0]] = self._read_part(*jobs[0])
        finally:
            wait(waits)  # whatever happens, nobody reads into these extents any more
        for part, other in zip(parts[1:], waits, strict=True):
            verdicts[part] = other.result()
        return verdicts

    def _read_part(self, records: Records, offsets: Ints) -> NDArray[np.uint8]:
        addresses = offsets.view(np.uint64) + self._pool
        crcs = records.crcs.astype(np.uint32)
        return self._log.read(records.places, records.lengths, crcs, addresses)


def _names(digests: Digests) -> list[Digest]:
    return [(first, second) for first, second in digests.tolist()]
