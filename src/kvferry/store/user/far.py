"""A node whose memory this process cannot map: asked where objects lie, then read one-sided."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...batch import Batch
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
from .lease import leased_by
from .namespace import PLAIN, Namespace
from .pieces import Pieces
from .stock import Extents
from .targets import Target
from .underway import Underway
from .values import Values

__all__ = ["Far"]

LEASE = 5_000_000_000  # ns; a read that takes longer is asked for again, with a longer one
TRIES = 3

# As plain numbers, which arrays take faster.
FOUND, ABSENT, CHANGING = int(Answer.FOUND), int(Answer.ABSENT), int(Answer.CHANGING)


class Ends(Protocol):
    """Where to go with what was found; some: rows of the keys that were asked for; None: all.
    Which have not come along with the answer, and what to read for them."""

    def __call__(self, spots: Spots, cargo: bytes, some: Ints | None) -> Coming: ...


Coming = tuple[Ints, Batch | None]


class Far(Home):
    """A user's place at a node elsewhere. Puts go the same way: reserve, write, commit.

    unmapped  why so, although the path would have permitted to map its memory; "": it did not
    """

    def __init__(self, channel: Channel, namespace: Namespace = PLAIN, unmapped: str = "") -> None:
        self._channel = channel
        self.unmapped = unmapped
        self.name, self.path = channel.peer, channel.path
        self._lock = threading.Lock()
        self._done: list[int] = []  # tickets to give back with the next question
        self._reading = Underway()
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
        if isinstance(values.sources, Pieces):
            self.write_pieces(extents, values.sources, values.sources.offsets, timeout)
            return
        offsets, lengths = extents.offsets.view(np.int64), values.lengths.view(np.int64)
        carry.write(self._channel, self._pool, offsets, lengths, values.sources, timeout)

    def write_pieces(
        self, extents: Extents, pieces: Pieces, offsets: Words, timeout: float | None
    ) -> None:
        carry.write_pieces(self._channel, self._pool, extents, pieces, offsets, timeout)

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

    def keep(self, keys: Sequence[Key], span: int) -> Answers:
        return leased_by(self, _core.digest(keys, self.joined.secret), span)

    def read(self, keys: Sequence[Key], room: Room, watch: Watch) -> Found:
        def ends(spots: Spots, cargo: bytes, some: Ints | None) -> Coming:
            at = range(len(spots.answers)) if some is None else some.tolist()
            both = zip(at, spots.answers.tolist(), spots.lengths.tolist(), strict=True)
            outs = [room(i, length) if said == FOUND else None for i, said, length in both]
            return self._unload(spots, cargo, outs)

        return self._read(keys, ends, watch)

    def read_into(self, keys: Sequence[Key], outs: Sequence[Any], watch: Watch) -> Found:
        def ends(spots: Spots, cargo: bytes, some: Ints | None) -> Coming:
            chosen = outs if some is None else [outs[at] for at in some.tolist()]
            return self._unload(spots, cargo, chosen)

        return self._read(keys, ends, watch)

    def read_pieces(
        self, keys: Sequence[Key], target: Target, rows: Ints | None, watch: Watch
    ) -> Found:
        def ends(spots: Spots, cargo: bytes, some: Ints | None) -> Coming:
            which = some if rows is None else rows if some is None else rows[some]
            return target.unload(self._pool, spots, cargo, which)

        return self._read(keys, ends, watch)

    def _unload(self, spots: Spots, cargo: bytes, outs: Sequence[Any]) -> Coming:
        left = _core.unload_into(*spots, cargo, outs)
        rest = [memoryview(outs[at]) for at in left.tolist()]
        offsets, lengths = spots.offsets[left], spots.lengths[left]
        return left, carry.batch(self._pool, offsets.view(np.int64), lengths.view(np.int64), rest)

    def _read(self, keys: Sequence[Key], ends: Ends, watch: Watch) -> Found:
        """A read that did not end inside its lease is asked for again, with a longer one; what it
        left in the buffer is never told as found."""
        digests = _core.digest(keys, self.joined.secret)
        found = self._fetch(digests, partial(ends, some=None), watch, LEASE)
        for turn in range(1, TRIES):
            if CHANGING not in found.answers.tobytes():
                break
            left = np.flatnonzero(found.answers == CHANGING)
            more = self._fetch(digests[left], partial(ends, some=left), watch, LEASE << 2 * turn)
            found.answers[left], found.lengths[left] = more
        if self._disk and ABSENT in found.answers.tobytes():
            self._read_beside(digests, found, ends, watch)
        return found

    def _read_beside(self, digests: Digests, found: Found, ends: Ends, watch: Watch) -> None:
        """What is absent may lie on the disk: more than could come into memory at once."""

        def again(rows: Ints) -> NDArray[np.bool_]:
            more = self._fetch(digests[rows], partial(ends, some=rows), watch, LEASE)
            found.answers[rows], found.lengths[rows] = more
            absent: NDArray[np.bool_] = more.answers == ABSENT
            return absent

        read_beside(self, digests, found.answers, found.answers == ABSENT, again)

    def _fetch(
        self, digests: Digests, ends: Callable[[Spots, bytes], Coming], watch: Watch, lease: int
    ) -> Found:
        """What is small has come along; the rest is read, and is CHANGING if that took too long."""
        with self._reading:
            return self._fetch_now(digests, ends, watch, lease)

    def _fetch_now(
        self, digests: Digests, ends: Callable[[Spots, bytes], Coming], watch: Watch, lease: int
    ) -> Found:
        asked = now()
        located = self.ask(m.Locate(m.column_of(digests), lease, self._tickets()), m.Located)
        try:
            spots = m.spots_in(located, len(digests), self._pool.length)
            left, batch = ends(spots, located.cargo)
            if batch is not None:
                in_full = self._carry(batch, watch, located.lease)
                if not in_full or not in_time(asked, now(), located.lease):
                    spots.answers[left] = CHANGING
        finally:
            self._give_back(located.ticket)
        return Found(spots.answers, spots.lengths.copy())

    def _carry(self, batch: Batch, watch: Watch, lease: int) -> bool:
        """False: it took longer than the lease."""
        try:
            carry.read(self._channel, batch, watch, lease / 1e9)
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
        """The leases of what is read still end by themselves."""
        if self._reading.end():
            self.ask(m.Leave(self.joined.user), m.Told)
