"""A node whose memory this process cannot map: asked where objects lie, then read one-sided."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ...engine import Channel
from ...errors import NotQuiet, Timeout
from .. import messages as m
from ..answers import Answer, Answers, Cause, Digests
from ..clock import in_time, now
from ..table import Ints, Words
from . import carry
from .found import Found, Key, Room, Watch
from .home import Home
from .stock import Extents
from .values import Values

__all__ = ["Far"]

LEASE = 5_000_000_000  # ns; a read that takes longer is asked for again, with a longer one
TRIES = 3

# As plain numbers, which arrays take faster.
FOUND, CHANGING = int(Answer.FOUND), int(Answer.CHANGING)


class Far(Home):
    """A user's place at a node elsewhere. Puts go the same way: reserve, write, commit."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.name = channel.peer
        self._lock = threading.Lock()
        self._done: list[int] = []  # tickets to give back with the next question
        self.joined = self.ask(m.Join(m.VERSION, mapped=False), m.Joined)
        self._pool = channel.regions["store.pool"]

    @property
    def gone(self) -> bool:
        return self._channel.stale()

    def ask(self, request: m.Request, kind: type[m.R], timeout: float | None = None) -> m.R:
        if self._done and isinstance(request, m.Reserve | m.Remove | m.Drain):
            self.ask(m.Release(self._tickets()), m.Told, timeout)  # nobody stays for our sake
        return m.decode_reply(self._channel.call(m.SERVICE, m.encode(request), timeout), kind)

    def write(self, extents: Extents, values: Values, timeout: float | None) -> None:
        offsets, lengths = extents.offsets.view(np.int64), values.lengths.view(np.int64)
        carry.write(self._channel, self._pool, offsets, lengths, values.sources, timeout)

    def commit(self, attempts: Words, values: Values, timeout: float | None) -> Answers:
        digests, _, lengths, parents, ttls = values
        request = m.Commit(
            m.column_of(attempts),
            m.column_of(digests),
            m.column_of(lengths),
            None if parents is None else m.column_of(parents),
            None if ttls is None else m.column_of(ttls),
        )
        return m.answers_in(self.ask(request, m.Told, timeout).answers).copy()

    def exists(self, keys: Sequence[Key]) -> Answers:
        causes = m.answers_in(self.ask(m.Why(self._column(keys)), m.Told).answers)
        m.check_rows(len(keys), causes)
        return np.where(causes == Cause.PRESENT, Answer.FOUND, Answer.ABSENT).astype(np.uint8)

    def read(self, keys: Sequence[Key], room: Room, watch: Watch) -> Found:
        """A read that did not end inside its lease is asked for again, with a longer one; what it
        left in the buffer is never told as found."""
        digests = _core.digest(keys, self.joined.secret)
        found = Found.all(len(digests), Answer.CHANGING)
        lease = LEASE
        for _ in range(TRIES):
            left = np.flatnonzero(found.answers == CHANGING)
            if not len(left):
                break

            def room_of(at: int, length: int, left: Ints = left) -> Any | None:
                return room(int(left[at]), length)

            more = self._fetch(digests[left], room_of, watch, lease)
            found.answers[left], found.lengths[left] = more
            lease *= 4
        return found

    def _fetch(self, digests: Digests, room: Room, watch: Watch, lease: int) -> Found:
        asked = now()
        located = self.ask(m.Locate(m.column_of(digests), lease, self._tickets()), m.Located)
        try:
            answers = m.answers_in(located.answers).copy()
            offsets, lengths = m.numbers_in(located.offsets, located.lengths)
            m.check_rows(len(digests), answers, offsets)
            there = np.flatnonzero(answers == FOUND)
            outs = [room(at, int(lengths[at])) for at in there.tolist()]
            refused = np.array([out is None for out in outs], np.bool_)
            answers[there[refused]] = Answer.TOO_SMALL
            there = there[~refused]
            wanted = [out for out in outs if out is not None]
            in_full = self._read(offsets[there], lengths[there], wanted, watch, located.lease)
            if not in_full or not in_time(asked, now(), located.lease):
                answers[there] = Answer.CHANGING
        finally:
            self._give_back(located.ticket)
        return Found(answers, lengths.view(np.uint64))

    def _read(
        self, offsets: Ints, lengths: Ints, outs: Sequence[Any], watch: Watch, lease: int
    ) -> bool:
        """False: it took longer than the lease."""
        try:
            carry.read(self._channel, self._pool, offsets, lengths, outs, watch, lease / 1e9)
        except NotQuiet:  # the buffers are nobody's yet
            raise
        except Timeout:
            return False
        return True

    def _column(self, keys: Sequence[Key]) -> bytes:
        return m.column_of(_core.digest(keys, self.joined.secret))

    def _tickets(self) -> bytes:
        with self._lock:
            done, self._done = self._done, []
        return np.array(done, np.uint64).tobytes()

    def _give_back(self, ticket: int) -> None:
        if ticket:
            with self._lock:
                self._done.append(ticket)

    def leave(self) -> None:
        self.ask(m.Leave(self.joined.user), m.Told)
