"""A node whose memory this process cannot map: asked where objects lie, then read one-sided."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...engine import Channel
from ...errors import NotQuiet, PeerError, Timeout
from .. import messages as m
from ..answers import Answer, Answers, Cause, Digests
from ..clock import in_time, now
from ..messages import Spots
from ..table import Ints, Words
from . import carry
from .beside import DISK, read_beside
from .found import Found, Key, Room, Watch
from .home import Home
from .namespace import PLAIN, Namespace
from .stock import Extents
from .values import Values

__all__ = ["Far"]

LEASE = 5_000_000_000  # ns; a read that takes longer is asked for again, with a longer one
TRIES = 3

# As plain numbers, which arrays take faster.
FOUND, ABSENT, CHANGING = int(Answer.FOUND), int(Answer.ABSENT), int(Answer.CHANGING)


class Outs(Protocol):
    """Buffers for what was found; rows: those of the keys that were asked for; None: all."""

    def __call__(self, spots: Spots, rows: Ints | None) -> Sequence[Any]: ...


class Far(Home):
    """A user's place at a node elsewhere. Puts go the same way: reserve, write, commit."""

    def __init__(self, channel: Channel, namespace: Namespace = PLAIN) -> None:
        self._channel = channel
        self.name = channel.peer
        self._lock = threading.Lock()
        self._done: list[int] = []  # tickets to give back with the next question
        self.joined = namespace.joined(self.ask(m.Join(m.VERSION, mapped=False), m.Joined))
        self._pool = channel.regions["store.pool"]
        self._disk = DISK in channel.regions

    @property
    def gone(self) -> bool:
        return self._channel.stale()

    def lose(self) -> None:
        self._channel.lose(PeerError("it did not answer", cause="silent", peer=self.name))

    def ask(self, request: m.Request, kind: type[m.R], timeout: float | None = None) -> m.R:
        if self._done and isinstance(request, m.Reserve | m.Remove | m.Drain | m.Fetch):
            self.ask(m.Release(self._tickets()), m.Told, timeout)  # nobody stays for our sake
        return m.decode_reply(self._channel.call(m.SERVICE, m.encode(request), timeout), kind)

    def write(self, extents: Extents, values: Values, timeout: float | None) -> None:
        offsets, lengths = extents.offsets.view(np.int64), values.lengths.view(np.int64)
        carry.write(self._channel, self._pool, offsets, lengths, values.sources, timeout)

    def commit(self, attempts: Words, values: Values, timeout: float | None) -> Answers:
        digests, _, lengths, parents, ttls, attrs = values
        request = m.Commit(
            m.column_of(attempts),
            m.column_of(digests),
            m.column_of(lengths),
            None if parents is None else m.column_of(parents),
            None if ttls is None else m.column_of(ttls),
            None if attrs is None else m.column_of(attrs),
        )
        return m.answers_in(self.ask(request, m.Told, timeout).answers).copy()

    def exists(self, keys: Sequence[Key]) -> Answers:
        causes = m.answers_in(self.ask(m.Why(self._column(keys)), m.Told).answers)
        m.check_rows(len(keys), causes)
        return np.where(causes == Cause.PRESENT, Answer.FOUND, Answer.ABSENT).astype(np.uint8)

    def read(self, keys: Sequence[Key], room: Room, watch: Watch) -> Found:
        def outs(spots: Spots, rows: Ints | None) -> list[Any]:
            at = range(len(spots.answers)) if rows is None else rows.tolist()
            both = zip(at, spots.answers.tolist(), spots.lengths.tolist(), strict=True)
            return [room(i, length) if said == FOUND else None for i, said, length in both]

        return self._read(keys, outs, watch)

    def read_into(self, keys: Sequence[Key], outs: Sequence[Any], watch: Watch) -> Found:
        def chosen(spots: Spots, rows: Ints | None) -> Sequence[Any]:
            return outs if rows is None else [outs[at] for at in rows.tolist()]

        return self._read(keys, chosen, watch)

    def _read(self, keys: Sequence[Key], outs: Outs, watch: Watch) -> Found:
        """A read that did not end inside its lease is asked for again, with a longer one; what it
        left in the buffer is never told as found."""
        digests = _core.digest(keys, self.joined.secret)
        found = self._fetch(digests, partial(outs, rows=None), watch, LEASE)
        for turn in range(1, TRIES):
            if CHANGING not in found.answers.tobytes():
                break
            left = np.flatnonzero(found.answers == CHANGING)
            more = self._fetch(digests[left], partial(outs, rows=left), watch, LEASE << 2 * turn)
            found.answers[left], found.lengths[left] = more
        if self._disk and ABSENT in found.answers.tobytes():
            self._read_beside(digests, found, outs, watch)
        return found

    def _read_beside(self, digests: Digests, found: Found, outs: Outs, watch: Watch) -> None:
        """What is absent may lie on the disk: more than could come into memory at once."""

        def again(rows: Ints) -> NDArray[np.bool_]:
            more = self._fetch(digests[rows], partial(outs, rows=rows), watch, LEASE)
            found.answers[rows], found.lengths[rows] = more
            absent: NDArray[np.bool_] = more.answers == ABSENT
            return absent

        read_beside(self, digests, found.answers, found.answers == ABSENT, again)

    def _fetch(
        self, digests: Digests, outs: Callable[[Spots], Sequence[Any]], watch: Watch, lease: int
    ) -> Found:
        """What is small has come along; the rest is read, and is CHANGING if that took too long."""
        asked = now()
        located = self.ask(m.Locate(m.column_of(digests), lease, self._tickets()), m.Located)
        try:
            spots = m.spots_in(located, len(digests), self._pool.length)
            wanted = outs(spots)
            left = _core.unload_into(*spots, located.cargo, wanted)
            if len(left):
                rest = [memoryview(wanted[at]) for at in left.tolist()]
                places = spots.offsets[left], spots.lengths[left]
                in_full = self._carry(*places, rest, watch, located.lease)
                if not in_full or not in_time(asked, now(), located.lease):
                    spots.answers[left] = CHANGING
        finally:
            self._give_back(located.ticket)
        return Found(spots.answers, spots.lengths.copy())

    def _carry(
        self, offsets: Words, lengths: Words, outs: Sequence[Any], watch: Watch, lease: int
    ) -> bool:
        """False: it took longer than the lease."""
        places = offsets.view(np.int64), lengths.view(np.int64)
        try:
            carry.read(self._channel, self._pool, *places, outs, watch, lease / 1e9)
        except NotQuiet:  # the buffers are nobody's yet
            raise
        except Timeout:
            return False
        return True

    def _column(self, keys: Sequence[Key]) -> bytes:
        return m.column_of(_core.digest(keys, self.joined.secret))

    def _tickets(self) -> bytes:
        if not self._done:
            return b""
        with self._lock:
            done, self._done = self._done, []
        return np.array(done, np.uint64).tobytes()

    def _give_back(self, ticket: int) -> None:
        if ticket:
            with self._lock:
                self._done.append(ticket)

    def leave(self) -> None:
        self.ask(m.Leave(self.joined.user), m.Told)
