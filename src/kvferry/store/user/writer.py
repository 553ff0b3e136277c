"""Putting: take an extent that was reserved ahead, write, commit."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import messages as m
from ..answers import Answer, Answers, Digests
from ..extents import room_of, rooms_of
from ..table import Ints, Words
from .home import Home
from .stock import Extents, Stock

__all__ = ["Writer"]

INDEX_FULL = int(Answer.INDEX_FULL)  # an attempt that was answered so stands


class Writer:
    """Writes of one user to one node. Thread-safe: each put has extents of its own."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._capacity = home.joined.pool - home.joined.pool % 64
        self._lock = threading.Lock()
        self._stock = Stock(home.joined.stock)
        self._lost: list[int] = []  # attempts of which it is not known whether they are over

    def put_one(
        self,
        digests: Digests,
        source: Any,
        length: int,
        parents: Digests | None,
        ttls: Ints | None,
        timeout: float | None,
    ) -> Answer:
        """The same as put, for one key."""
        if length > self._capacity:
            return Answer.TOO_LARGE
        room = min(room_of(length), self._capacity)
        with self._lock:
            extent = self._stock.take_one(room)
        if extent is None:
            lengths = np.array([length])
            return Answer(self.put(digests, [source], lengths, parents, ttls, timeout).item(0))
        row = np.array([*extent, room, length], np.uint64)
        extents = Extents(row[:1], row[1:2], row[2:3])
        answers = self._write(extents, digests, [source], row[3:], parents, ttls, timeout)
        return Answer(answers.item(0))

    def put(
        self,
        digests: Digests,
        sources: Sequence[Any],
        lengths: Ints,
        parents: Digests | None,
        ttls: Ints | None,
        timeout: float | None,
    ) -> Answers:
        """STORED, PRESENT or why not, for each. Raises what writing and asking raise; nothing is
        known of the keys then, and doing it again is harmless."""
        answers = np.full(len(lengths), Answer.FULL, np.uint8)
        left = np.arange(len(lengths))
        while len(left):
            answers[left] = self._round(
                digests[left],
                [sources[at] for at in left.tolist()],
                lengths[left],
                None if parents is None else parents[left],
                None if ttls is None else ttls[left],
                timeout,
            )
            full = left[answers[left] == Answer.FULL]
            left = full if len(full) < len(left) else full[:0]
        return answers

    def _round(
        self,
        digests: Digests,
        sources: Sequence[Any],
        lengths: Ints,
        parents: Digests | None,
        ttls: Ints | None,
        timeout: float | None,
    ) -> Answers:
        """As many of them as a user may have reserved at once."""
        answers, extents = self._take(lengths, timeout)
        given = np.flatnonzero(answers == Answer.RESERVED)
        if len(given):
            answers[given] = self._write(
                Extents(*(column[given] for column in extents)),
                digests[given],
                [sources[at] for at in given.tolist()],
                lengths[given].astype(np.uint64),
                None if parents is None else parents[given],
                None if ttls is None else ttls[given],
                timeout,
            )
        return answers

    def give_back(self) -> None:
        """All that was reserved and not used."""
        with self._lock:
            attempts = np.concatenate((self._stock.empty(), self._take_lost()))
        if len(attempts):
            self._home.ask(m.Abort(m.column_of(attempts)), m.Told)

    def take_over(self, before: Writer) -> None:
        """What an earlier writer of the same user has reserved, and will not use any more."""
        with before._lock:
            stock, before._stock = before._stock, Stock(0)
            lost = before._take_lost()
        with self._lock:
            self._stock = stock
            self._lost += lost.tolist()

    # ---- steps ----

    def _write(
        self,
        extents: Extents,
        digests: Digests,
        sources: Sequence[Any],
        lengths: Words,
        parents: Digests | None,
        ttls: Ints | None,
        timeout: float | None,
    ) -> Answers:
        try:
            self._home.write(extents.offsets, extents.rooms, sources, timeout)
        except BaseException:
            self._keep(extents, np.arange(len(lengths)))
            raise
        try:
            answers = self._home.commit(extents.attempts, digests, lengths, parents, ttls, timeout)
        except BaseException:
            with self._lock:
                self._lost += extents.attempts.tolist()
            raise
        if INDEX_FULL in answers.tobytes():
            self._keep(extents, np.flatnonzero(answers == INDEX_FULL))
        return answers

    def _take(self, lengths: Ints, timeout: float | None) -> tuple[Answers, Extents]:
        """An extent for each, or why there is none."""
        count = len(lengths)
        answers = np.full(count, Answer.RESERVED, np.uint8)
        answers[lengths > self._capacity] = Answer.TOO_LARGE
        rooms = np.minimum(rooms_of(lengths), self._capacity)
        found = Extents(
            np.zeros(count, np.uint64), np.zeros(count, np.uint64), rooms.astype(np.uint64)
        )
        for room in np.unique(rooms[answers == Answer.RESERVED]).tolist():
            wanted = np.flatnonzero((rooms == room) & (answers == Answer.RESERVED))
            self._take_room(room, wanted, found, answers, timeout)
        return answers, found

    def _take_room(
        self, room: int, wanted: Ints, found: Extents, answers: Answers, timeout: float | None
    ) -> None:
        with self._lock:
            have = self._stock.take(room, len(wanted))
            ahead = self._stock.ahead(room) if len(have) < len(wanted) else 0
        if have:
            attempts, offsets = zip(*have, strict=True)
            found.attempts[wanted[: len(have)]] = attempts
            found.offsets[wanted[: len(have)]] = offsets
        missing = wanted[len(have) :]
        if not len(missing):
            return
        try:
            got = self._reserve(room, len(missing), ahead, timeout)
        except BaseException:
            self._keep(found, wanted[: len(have)])
            raise
        found.attempts[missing] = got[1]
        found.offsets[missing] = got[2]
        answers[missing] = got[0]

    def _reserve(
        self, room: int, count: int, ahead: int, timeout: float | None
    ) -> tuple[Answers, Words, Words]:
        """`count` extents; what there is more goes to the stock. When the pool is full, the stock
        of other rooms goes back, and it is asked once more."""
        reply = self._ask_for(room, count + ahead, timeout)
        with self._lock:
            idle = self._stock.bytes
        if idle and not (reply[0] == Answer.RESERVED).any():
            self.give_back()
            reply = self._ask_for(room, count, timeout)
        answers, attempts, offsets = reply
        more = np.flatnonzero(answers[count:] == Answer.RESERVED) + count
        with self._lock:
            pairs = zip(attempts[more].tolist(), offsets[more].tolist(), strict=True)
            self._stock.put(room, list(pairs))
        return answers[:count], attempts[:count], offsets[:count]

    def _ask_for(
        self, room: int, count: int, timeout: float | None
    ) -> tuple[Answers, Words, Words]:
        with self._lock:
            lost = self._take_lost()
        if len(lost):
            self._home.ask(m.Abort(m.column_of(lost)), m.Told, timeout)
        sizes = np.full(count, room, np.int64)
        reply = self._home.ask(m.Reserve(m.column_of(sizes)), m.Extents, timeout)
        answers = m.answers_in(reply.answers)
        attempts, offsets = m.words_in(reply.attempts, reply.offsets)
        m.check_rows(count, answers, attempts, offsets)
        return answers, attempts, offsets

    def _take_lost(self) -> Words:
        lost, self._lost = self._lost, []
        return np.array(lost, np.uint64)

    def _keep(self, extents: Extents, which: Ints) -> None:
        """These were not used after all."""
        with self._lock:
            for at in which.tolist():
                one = int(extents.attempts[at]), int(extents.offsets[at])
                self._stock.put(int(extents.rooms[at]), [one])
