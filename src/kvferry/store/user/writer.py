"""Putting: take an extent that was reserved ahead, write, commit."""

from __future__ import annotations

import threading

import numpy as np

from .. import messages as m
from ..answers import Answer, Answers
from ..extents import room_of, rooms_of
from ..table import Ints, Words
from .home import Home
from .orders import Orders
from .pieces import Pieces
from .stock import Extents, Stock
from .underway import Underway
from .values import Values

__all__ = ["Writer"]

# As plain numbers, which arrays take faster.
RESERVED = int(Answer.RESERVED)
TOO_LARGE = int(Answer.TOO_LARGE)
FULL = int(Answer.FULL)
INDEX_FULL = int(Answer.INDEX_FULL)  # an attempt that was answered so stands

Given = tuple[Answers, Words, Words]  # answers, and of what is RESERVED attempts and offsets


class Writer:
    """Writes of one user to one node. Thread-safe: each put has extents of its own.

    timeout  seconds for which the node is waited for, each time
    """

    def __init__(self, home: Home, timeout: float) -> None:
        self._home = home
        self._timeout = timeout
        self._capacity = home.joined.pool - home.joined.pool % 64
        self._lock = threading.Lock()
        self._stock = Stock(home.joined.stock)
        self._orders = Orders()
        self._writing = Underway()
        self._lost: list[int] = []  # attempts of which it is not known whether they are over

    def put_one(self, values: Values, length: int) -> int:
        """The same as put, for one value of so many bytes."""
        if length > self._capacity:
            return TOO_LARGE
        room = min(room_of(length), self._capacity)
        with self._lock:
            attempts, offsets = self._stock.take(room, 1)
        if not len(attempts):
            return int(self.put(values)[0])
        rooms = np.array([room], np.uint64)
        return int(self._write(Extents(attempts, offsets, rooms), values)[0])

    def put(self, values: Values) -> Answers:
        """STORED, PRESENT or why not, for each. Raises what writing and asking raise; nothing is
        known of the keys then, and doing it again is harmless."""
        answers = np.full(len(values.lengths), FULL, np.uint8)
        left = np.arange(len(answers))
        while len(left):
            answers[left] = self._round(values.some(left))
            full = left[answers[left] == FULL]
            left = full if len(full) < len(left) else full[:0]
        return answers

    def write(self, extents: Extents, pieces: Pieces, offsets: Words) -> None:
        """Pieces of row i to their offsets in extent i. Raises what transfers raise."""
        with self._writing:
            self._home.write_pieces(extents, pieces, offsets, self._timeout)

    def commit(self, extents: Extents, values: Values) -> Answers:
        """What was written becomes objects."""
        try:
            answers = self._home.commit(extents.attempts, values, self._timeout)
        except BaseException:
            with self._lock:
                self._lost += extents.attempts.tolist()
            raise
        if INDEX_FULL in answers.tobytes():
            self._keep(extents.some(np.flatnonzero(answers == INDEX_FULL)))
        return answers

    def abort(self, extents: Extents) -> None:
        """These will not be written. Raises what asking raises; the node is told later then."""
        try:
            self._home.ask(m.Abort(m.column_of(extents.attempts)), m.Told, self._timeout)
        except BaseException:
            with self._lock:
                self._lost += extents.attempts.tolist()
            raise

    def give_back(self) -> None:
        """All that was reserved and not used."""
        self._orders.wait()
        with self._lock:
            attempts = np.concatenate((self._stock.empty(), self._take_lost()))
        if len(attempts):
            self._home.ask(m.Abort(m.column_of(attempts)), m.Told)

    def take_over(self, before: Writer) -> None:
        """What an earlier writer of the same user has reserved, and will not use any more. It is
        closed."""
        with before._lock:
            stock, before._stock = before._stock, Stock(0)
            lost = before._take_lost()
        with self._lock:
            self._stock = stock
            self._lost += lost.tolist()

    def close(self) -> None:
        """Nothing is ordered any more; blocks until what was ordered has come. Idempotent."""
        self._orders.close()

    def end(self) -> bool:
        """Nothing is written any more. False: something is still, though this waited a moment: its
        places may be given to nobody."""
        return self._writing.end()

    # ---- steps ----

    def _round(self, values: Values) -> Answers:
        """As many of them as a user may have reserved at once."""
        answers, extents = self.take(values.lengths)
        given = np.flatnonzero(answers == RESERVED)
        if len(given):
            answers[given] = self._write(extents.some(given), values.some(given))
        return answers

    def _write(self, extents: Extents, values: Values) -> Answers:
        try:
            with self._writing:
                self._home.write(extents, values, self._timeout)
        except BaseException:
            self._keep(extents)
            raise
        return self.commit(extents, values)

    def take(self, lengths: Words) -> tuple[Answers, Extents]:
        """An extent for each, RESERVED, or why there is none. They are the caller's to commit or to
        abort."""
        count = len(lengths)
        answers = np.full(count, TOO_LARGE, np.uint8)
        rooms = np.minimum(rooms_of(lengths.astype(np.int64)), self._capacity).astype(np.uint64)
        found = Extents(np.zeros(count, np.uint64), np.zeros(count, np.uint64), rooms)
        fits = lengths <= self._capacity
        try:
            for room in set(rooms[fits].tolist()):
                wanted = np.flatnonzero(fits & (rooms == room))
                given = self._take_room(room, len(wanted))
                answers[wanted], found.attempts[wanted], found.offsets[wanted] = given
        except BaseException:
            self._keep(found.some(np.flatnonzero(answers == RESERVED)))
            raise
        return answers, found

    def _take_room(self, room: int, count: int) -> Given:
        """Of one room: from the stock, and what that has not from the node. What the next one of
        the kind will want is ordered."""
        attempts, offsets = self._take_kept(room, count)
        answers = np.full(len(attempts), RESERVED, np.uint8)
        if len(attempts) < count:
            try:
                more = self._reserve(room, count - len(attempts))
            except BaseException:
                with self._lock:
                    self._stock.put(room, attempts, offsets)
                raise
            answers = np.concatenate((answers, more[0]))
            attempts = np.concatenate((attempts, more[1]))
            offsets = np.concatenate((offsets, more[2]))
        if answers.tobytes().count(RESERVED) == count:
            self._order(room, count)
        return answers, attempts, offsets

    def _take_kept(self, room: int, count: int) -> tuple[Words, Words]:
        """What the stock has, and what is on its way there."""
        with self._lock:
            enough = self._stock.count(room) >= count
        if not enough:
            self._orders.wait(room)
        with self._lock:
            return self._stock.take(room, count)

    def _reserve(self, room: int, count: int) -> Given:
        """`count` extents; what there is more goes to the stock. When the pool is full, the stock
        of other rooms goes back, and it is asked once more."""
        with self._lock:
            ahead = self._stock.ahead(room)
        given = self._ask_for(room, count + ahead)
        with self._lock:
            idle = self._stock.bytes + self._stock.coming
        if idle and RESERVED not in given[0].tobytes():
            self.give_back()
            given = self._ask_for(room, count)
        self._stow(room, given, count)
        return given[0][:count], given[1][:count], given[2][:count]

    def _order(self, room: int, count: int) -> None:
        """While what was taken is written, have the node reserve as much again."""
        if not self._home.apart:
            return
        with self._lock:
            more = 0 if self._stock.coming else self._stock.lacks(room, count)
            if more and self._orders.begin(self._fetch, room, more):
                self._stock.coming = room * more

    def _fetch(self, room: int, count: int) -> None:
        try:
            self._stow(room, self._ask_for(room, count), 0)
        finally:
            with self._lock:
                self._stock.coming = 0

    def _stow(self, room: int, given: Given, count: int) -> None:
        """To the stock, all but the first `count`."""
        answers, attempts, offsets = given
        more = np.flatnonzero(answers[count:] == RESERVED) + count
        with self._lock:
            self._stock.put(room, attempts[more], offsets[more])

    def _ask_for(self, room: int, count: int) -> Given:
        with self._lock:
            lost = self._take_lost()
        if len(lost):
            self._home.ask(m.Abort(m.column_of(lost)), m.Told, self._timeout)
        sizes = m.column_of(np.full(count, room, np.int64))
        reply = self._home.ask(m.Reserve(sizes), m.Extents, self._timeout)
        answers = m.answers_in(reply.answers)
        attempts, offsets = m.words_in(reply.attempts, reply.offsets)
        m.check_rows(count, answers, attempts, offsets)
        return answers, attempts, offsets

    def _take_lost(self) -> Words:
        lost, self._lost = self._lost, []
        return np.array(lost, np.uint64)

    def _keep(self, extents: Extents) -> None:
        """These were not used after all."""
        with self._lock:
            for room in set(extents.rooms.tolist()):
                which: Ints = np.flatnonzero(extents.rooms == room)
                self._stock.put(room, extents.attempts[which], extents.offsets[which])
