"""A pure twin of the native ledger, for tests and replay. Every attempt comes out the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from .._core import ARRIVAL, ARRIVALS, FULL, NODE, NOWHERE, PRESENT
from .answers import Answer, Answers, Digests
from .table import Arrivals, IndexLike, Ints, Words

__all__ = ["DictLedger"]

ROW_BITS = 24
ROWS = 1 << ROW_BITS

Arrival = tuple[int, int, int, int, int, int]


class State(IntEnum):
    OVER = 0
    RESERVED = 1
    QUARANTINED = 2
    STRANGE = 3  # never given out, or another user's


ABORTS = {
    State.OVER: Answer.LATE,
    State.RESERVED: Answer.ABORTED,
    State.QUARANTINED: Answer.ABORTED,
    State.STRANGE: Answer.UNKNOWN,
}


@dataclass
class Row:
    serial: int = 0
    user: int = 0
    offset: int = 0
    room: int = 0
    state: State = State.OVER


class DictLedger:
    """`_core.Ledger` over any index. One thread at a time."""

    def __init__(self, index: IndexLike, entries_high: int) -> None:
        self.index = index
        self._entries_high = entries_high
        self._generation = 1
        self._rows: list[Row] = []
        self._free: list[int] = []  # the next one last
        self._arrivals: list[Arrival] = []
        self._returned: list[Row] = []
        self._refused: list[list[int]] = []
        self._beside: IndexLike | None = None

    def beside(self, other: IndexLike) -> None:
        self._beside = other

    @property
    def reserved(self) -> int:
        return sum(row.room for row in self._rows if row.state is State.RESERVED)

    @property
    def quarantined(self) -> int:
        return sum(row.room for row in self._rows if row.state is State.QUARANTINED)

    @property
    def left(self) -> int:
        return ROWS - len(self._rows) + len(self._free)

    @property
    def pending(self) -> int:
        return len(self._arrivals) + len(self._returned) + len(self._refused)

    def held(self, user: int) -> tuple[int, int]:
        rooms = [self._rows[at].room for at in self._of(user)]
        return len(rooms), sum(rooms)

    def open(self, user: int, offsets: Ints, rooms: Ints) -> Words:
        if len(offsets) > self.left:
            raise OverflowError("more extents reserved at once than there are rows")
        pairs = zip(offsets.tolist(), rooms.tolist(), strict=True)
        return np.array([self._open(user, *pair) for pair in pairs], np.uint64)

    def commit(
        self,
        user: int,
        attempts: Words,
        digests: Digests,
        lengths: Words,
        attrs: Words | None = None,
        parents: Digests | None = None,
        expires: Words | None = None,
    ) -> Answers:
        nothing = np.zeros(len(attempts), np.uint64)
        attrs = nothing if attrs is None else attrs
        expires = nothing if expires is None else expires
        parents = digests if parents is None else parents
        said = np.empty(len(attempts), np.uint8)
        for at in range(len(attempts)):
            one = slice(at, at + 1)
            place = lengths[one], attrs[one]
            state, row = self._find(user, int(attempts[at]))
            beside = user != NODE and self._lies_beside(digests[one])
            insert = _present if beside else self._insert
            told = parents[one], int(expires[at])
            said[at] = self._commit(state, row, digests[one], place, *told, insert)
            if said[at] in (Answer.TOO_LARGE, Answer.LATE, Answer.UNKNOWN):
                self._refused.append(digests[at].tolist())
        del self._refused[ARRIVALS:]
        return said

    def abort(self, user: int, attempts: Words) -> tuple[Answers, Ints, Ints]:
        freed, answers = [], np.empty(len(attempts), np.uint8)
        for at, attempt in enumerate(attempts.tolist()):
            state, row = self._find(user, attempt)
            answers[at] = ABORTS[state]
            if answers[at] == Answer.ABORTED:
                freed.append(self._close(row))
        return answers, *_extents(freed)

    def quarantine(self, user: int) -> int:
        for at in self._of(user):
            self._rows[at].state = State.QUARANTINED
        return self.held(user)[1]

    def gone(self, user: int) -> tuple[Ints, Ints]:
        return _extents([self._close(at) for at in self._of(user)])

    def extents(self) -> tuple[Ints, Ints]:
        return _extents([row for row in self._rows if row.state is not State.OVER])

    def arrivals(self) -> tuple[Arrivals, Ints, Ints, Digests]:
        arrived = np.array(self._arrivals, ARRIVAL)
        offsets, rooms = _extents(self._returned)
        refused = np.array(self._refused, np.uint64).reshape(-1, 2)
        self._arrivals, self._returned, self._refused = [], [], []
        return arrived, offsets, rooms, refused

    def _of(self, user: int) -> list[int]:
        rows = enumerate(self._rows)
        return [at for at, row in rows if row.user == user and row.state is not State.OVER]

    def _open(self, user: int, offset: int, room: int) -> int:
        if not self._free:
            self._free.append(len(self._rows))
            self._rows.append(Row())
        at = self._free.pop()
        self._rows[at] = Row(self._rows[at].serial + 1, user, offset, room, State.RESERVED)
        return self._rows[at].serial << ROW_BITS | at

    def _find(self, user: int, attempt: int) -> tuple[State, int]:
        serial, at = attempt >> ROW_BITS, attempt % ROWS
        if at >= len(self._rows) or not 0 < serial <= self._rows[at].serial:
            return State.STRANGE, at
        row = self._rows[at]
        if serial < row.serial or row.state is State.OVER:
            return State.OVER, at
        return row.state if row.user == user else State.STRANGE, at

    def _close(self, at: int) -> Row:
        self._rows[at].state = State.OVER
        self._free.append(at)
        return self._rows[at]

    def _commit(
        self,
        state: State,
        at: int,
        digest: Digests,
        place: tuple[Words, Words],
        parent: Digests,
        expires: int,
        insert: Callable[[Digests, Row, Words, Words], int],
    ) -> Answer:
        if state is State.STRANGE:
            return Answer.UNKNOWN
        if state is not State.RESERVED:
            return Answer.LATE
        row = self._rows[at]
        if int(place[0][0]) > row.room:
            return Answer.TOO_LARGE
        if ARRIVALS in (len(self._arrivals), len(self._returned)):
            return Answer.INDEX_FULL
        slot = insert(digest, row, *place)
        if slot == FULL:
            return Answer.INDEX_FULL
        self._close(at)
        if slot == PRESENT:
            self._returned.append(Row(offset=row.offset, room=row.room))
            return Answer.PRESENT
        above = int(self.index.find(parent)[0])
        generation, self._generation = self._generation, self._generation + 1
        told = generation, int(digest[0, 1]), row.room, expires, slot
        self._arrivals.append((*told, slot if above < 0 else above))
        return Answer.STORED

    def _lies_beside(self, digest: Digests) -> bool:
        return self._beside is not None and self._beside.find(digest)[0] != NOWHERE

    def _insert(self, digest: Digests, row: Row, length: Words, attrs: Words) -> int:
        if self.index.count >= self._entries_high:
            return FULL if self.index.find(digest)[0] == NOWHERE else PRESENT
        words = [np.array([n], np.uint64) for n in (self._generation, row.offset, row.room)]
        generation, offset, room = words
        return int(self.index.insert(digest, generation, offset, length, room, attrs)[0])


def _present(digest: Digests, row: Row, length: Words, attrs: Words) -> int:
    return PRESENT


def _extents(rows: list[Row]) -> tuple[Ints, Ints]:
    return (
        np.array([row.offset for row in rows], np.int64),
        np.array([row.room for row in rows], np.int64),
    )
