"""What a directory decides with: who is there, which nodes have a key, where else it should go."""

from __future__ import annotations

import secrets
from collections import deque

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...address import parse
from ...errors import UsageError
from ..answers import Digests
from ..messages import column_of
from ..table import Words
from .company import Company
from .events import REMOVED as REMOVED_AT
from .events import STORED, Events, Row
from .membership import Member, Membership, Spans, State
from .messages import (
    EVENTS,
    MOST,
    NAMES,
    REMOVED,
    VERSION,
    Enroll,
    Enrolled,
    Followed,
    Listed,
    Name,
    Named,
    Order,
    Placed,
    Places,
    Report,
    Scanned,
    Standing,
    Texts,
    Where,
    few_digests_in,
    rows_in,
    texts_in,
    texts_of,
)
from .names import LONGEST, Names
from .placement import Candidates, choose
from .removals import Removals
from .repair import Repair

__all__ = ["ROWS", "SPANS", "Directory"]

SPANS = Spans()
ROWS = 1 << 26  # 64 Mi keys, 3.3 GB at most
FORGOTTEN_AT_ONCE = 8  # parts of the table, a round
UNFOLLOWED = 60_000_000_000  # ns, after which events are not written down any more


class Directory:
    """One term of it, for one tenant. Pure, one thread at a time; `now` is ns of one clock.

    Nodes are the truth. What one told is believed from when it enrolled until it is dead or enrolls
    again; then it is forgotten, part by part, and until that is done nobody is told of it.

    term  names this table: who speaks of another one has to enroll
    rows  at most: what is reported beyond is not remembered, and counted
    names  what keys are called is kept, too
    """

    def __init__(
        self,
        term: int,
        now: int,
        *,
        rows: int = ROWS,
        spans: Spans = SPANS,
        seed: bytes = b"",
        names: bool = False,
    ) -> None:
        self.term = term
        self.rows = rows
        self.spans = spans.check()
        self.members = Membership(spans, now)
        self.table = _core.Places(rows, seed or secrets.token_bytes(16))
        self._settled = now + spans.dead  # nodes have told what they have by then
        self._repair = Repair(self.table, self.members, self._settled)
        self._alive = np.zeros(1 << 16, np.bool_)  # numbers of members
        self._dead: deque[tuple[int, int]] = deque()  # numbers to be forgotten, from which part on
        self._removals = Removals()
        self._company = Company(now, spans.suspect)
        self._codes = np.zeros(6, np.int64)  # how often each came of what was told
        self._beyond = 0  # keys that a node told beyond those it said it has at most
        self.names = Names(self._has) if names else None
        self._events: Events | None = None  # while somebody follows
        self._followed = 0  # when somebody last did
        self._unwritten = 0  # number of an event that nobody was told, since nobody followed

    # ---- nodes ----

    def enroll(self, epoch: int, hello: Enroll, now: int) -> Enrolled:
        """Raises UsageError (version, address, superseded, bad_size), Full (too_many_nodes)."""
        if hello.version != VERSION:
            raise UsageError(
                f"the node speaks version {hello.version}, the directory {VERSION}", cause="version"
            )
        if hello.free > hello.capacity:
            raise UsageError("more is free than there is", cause="bad_size")
        parse(hello.address)
        member, past = self.members.enroll(epoch, hello, now)
        for each in past:
            self._bury(each)
        member.keys = min(member.keys, self.rows)
        self._alive[member.number] = True
        self._repair.hurry(now)
        after = self._company.came(now)
        return Enrolled(self.term, member.number, self.spans.beat, member.keys, after)

    def beat(
        self, epoch: int, term: int, free: int, room: int, now: int
    ) -> tuple[Order, ...] | None:
        """What the node should copy elsewhere; None: it has to enroll."""
        member = self._heard(epoch, term, now)
        if member is None:
            return None
        member.free = min(free, member.capacity)
        return self._repair.take(member, room)

    def report(self, epoch: int, report: Report, now: int) -> Digests | None:
        """What it told that is void, and has to go there; None: it has to enroll. Raises UsageError
        for columns that do not fit each other, or are longer than permitted; nothing was done."""
        digests, wanted = rows_in(report)
        member = self._heard(epoch, report.term, now)
        if member is None or report.seq not in (member.seq, member.seq - 1):
            return None
        again = report.seq < member.seq  # the last one, whose answer was lost
        void = self._void(member, again, digests, wanted)
        self._removals.add(digests[wanted == REMOVED])
        wanted = np.where(void | (wanted == REMOVED), 0, wanted).astype(np.uint8)
        gone = digests[void]
        member.seq = report.seq + 1
        member.whole |= report.whole
        room = member.keys - self.table.held(member.number)
        if len(digests) > room:  # what goes is heard in any case
            digests, wanted = self._within(room, digests, wanted)
        codes = self.table.tell(member.number, digests, wanted)
        if self._events is not None:
            self._note(member, digests, codes)
        self._codes += np.bincount(codes, minlength=6)
        return gone

    def _void(
        self, member: Member, again: bool, digests: Digests, wanted: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Which of these came to the node before they were removed elsewhere."""
        if not member.back or (member.whole and not again):
            return np.zeros(len(digests), np.bool_)
        void: NDArray[np.bool_] = self._removals.of(digests) & (wanted != 0) & (wanted != REMOVED)
        return void

    def leave(self, epoch: int, term: int, ended: bool, now: int) -> bool:
        """False: the node is not known."""
        member = self._heard(epoch, term, now)
        if member is None:
            return False
        self.members.leave(member, ended)
        if ended:
            self._bury(member)
            self._repair.hurry(now)
        return True

    def alone(self, now: int) -> bool:
        """Is nobody there but the node that is heard of this moment?"""
        return self._company.alone(len(self.members), now)

    # ---- users ----

    def asked(self, epoch: int, own: int, now: int) -> None:
        """A user looks keys up, whose own node is another than it or not."""
        if self.members.of(epoch) is None:
            self._company.stranger(now)
        self._company.told(self._with(own), now)

    def lookup(self, digests: Digests, own: int = 0) -> Placed:
        """Where keys are: suspects last. own: epoch of the node that was asked first."""
        places = self._known(digests)
        suspects = [each.number for each in self.members if each.state is State.SUSPECT]
        if suspects:
            last = np.isin(places, suspects).argsort(1, kind="stable")
            places = np.take_along_axis(places, last, 1)
        return Placed(column_of(places), self._named(places), self._with(own))

    def choose(self, near: int, digests: Digests, sizes: Words, copies: int, now: int) -> Placed:
        """Where else to put keys, that `copies` nodes have them beside `near`, an epoch."""
        there = Candidates.of(list(self.members), self.spans, now)
        known = self._known(digests)
        first = self.members.of(near)
        own = 0 if first is None else first.number
        leaving = [each.number for each in self.members if each.state is State.LEAVING]
        held = ((known != 0) & (known != own) & ~np.isin(known, leaving)).sum(1)
        taken = np.concatenate((known, np.full((len(known), 1), own, np.uint16)), 1)
        places = choose(digests, sizes, taken, np.maximum(copies - held, 0), there)
        self._spend(places, sizes)
        count = column_of(held.astype(np.uint8))
        return Placed(column_of(places), self._named(places), len(self.members), count)

    # ---- names ----

    def name(self, request: Name, now: int) -> Named:
        """Raises UsageError for columns that do not fit each other, or for too much at once."""
        digests = few_digests_in(request.digests, NAMES)
        names = texts_in(request.names, len(digests))
        if any(name is None or len(name) > LONGEST for name in names):
            raise UsageError(f"a name has {LONGEST} bytes at most", cause="protocol")
        if self.names is not None:
            told = [name or b"" for name in names]
            self.names.tell(request.space, digests, told, request.fresh, now)
        return Named(self.term, self.names is not None)

    def listed(self, space: bytes, after: int, now: int) -> Listed:
        """Raises UsageError (names) where none are kept."""
        if self.names is None:
            raise UsageError("this directory keeps no names", cause="names")
        page = self.names.page(space, after, now)
        return Listed(self.term, texts_of(page.names), page.after)

    # ---- events ----

    def follow(self, term: int, after: int, now: int) -> Followed:
        """What came and went since; from the first call on it is written down."""
        self._followed = now
        first = self._events is None
        self._events = events = self._events or Events(last=self._unwritten)
        keys = self.table.rows
        rows = None if first or term != self.term else events.read(after, EVENTS)
        if rows is None:
            return Followed(self.term, events.last, True, keys)
        kinds, digests, nodes = rows.kinds, rows.digests, rows.nodes
        columns = column_of(kinds), column_of(digests), column_of(nodes)
        named = tuple(events.named) if len(kinds) else ()
        names = self._names_of(digests)
        return Followed(self.term, rows.last, False, keys, *columns, named, names)

    def scan(self, shard: int, bits: int, part: int) -> Scanned:
        """Where keys are; of a part that is chosen by their digests, and so does not change while
        rows move. Raises UsageError (bad_size) for more than a message takes."""
        found = self.table.scan(shard, 0, self.table.rows)[1]
        chosen = found["digest"][:, 1] & np.uint64((1 << bits) - 1) == part
        if int(chosen.sum()) > MOST:
            raise UsageError("a part of more keys than a message takes", cause="bad_size")
        digests = np.ascontiguousarray(found["digest"][chosen])
        places = found["places"][chosen] * self._alive[found["places"][chosen]]
        numbers = [int(number) for number in np.unique(places) if number]
        named: dict[int, tuple[str, str]] = {number: self._row(number) for number in numbers}
        columns = column_of(digests), column_of(places.astype(np.uint16))
        return Scanned(self.term, *columns, named, self._names_of(digests))

    # ---- rounds ----

    def sweep(self, now: int) -> list[Member]:
        """To be called several times a second: who is dead since the last time."""
        dead = self.members.sweep(now)
        for member in dead:
            self._bury(member)
            self._repair.hurry(now)
            self._company.stranger(now)  # it may be cut off, no more
        for _ in range(FORGOTTEN_AT_ONCE):
            self._forget_some()
        if not self._dead:
            self._repair.step(now)
        if self.names is not None and now >= self._settled:
            self.names.sweep(now)
        if self._events is not None and now - self._followed > UNFOLLOWED:
            self._unwritten = self._events.last + 1  # who comes back sees a gap
            self._events = None
        return dead

    def roll(self, now: int) -> tuple[Standing, ...]:
        """Who is there."""
        return tuple(self._standing(each, now) for each in self.members)

    def _standing(self, member: Member, now: int) -> Standing:
        return Standing(
            number=member.number,
            epoch=member.epoch,
            address=member.name,
            state=member.state.value,
            domain=member.domain,
            capacity=member.capacity,
            free=member.free,
            keys=self.table.held(member.number),
            most=member.keys,
            since=max(now - member.since, 0),
            heard=max(now - member.heard, 0),
        )

    def figures(self) -> dict[str, int]:
        states = [each.state for each in self.members]
        told = dict(zip(_TOLD, self._codes.tolist(), strict=True))
        return {
            "term": self.term,
            **{state.value: states.count(state) for state in State if state is not State.DEAD},
            "telling": sum(not each.whole for each in self.members),
            "keys": self.table.rows - self.table.idle,
            "rows": self.table.rows,
            "places": sum(self.table.held(each.number) for each in self.members),
            "lacking": self.table.lacking,
            "memory": self.table.memory,
            "beyond": self._beyond,
            **({} if self.names is None else self.names.figures()),
            **told,
        }

    # ---- steps ----

    def _heard(self, epoch: int, term: int, now: int) -> Member | None:
        member = self.members.of(epoch) if term == self.term else None
        if member is not None:
            self.members.hear(member, now)
        return member

    def _with(self, own: int) -> int:
        """How many nodes there are, with this one, which may not have enrolled yet."""
        return len(self.members) + (own != 0 and self.members.of(own) is None)

    def _bury(self, member: Member) -> None:
        self._alive[member.number] = False
        if self._events is not None and self.table.held(member.number):
            self._events.clear(member.row)
        self._repair.forget(member.number)
        if self.table.held(member.number):
            self._dead.append((member.number, 0))
        else:
            self.members.release(member.number)

    def _forget_some(self) -> None:
        if not self._dead:
            return
        number, shard = self._dead.popleft()
        self.table.forget(number, shard)
        if shard + 1 < _core.SHARDS and self.table.held(number):
            self._dead.appendleft((number, shard + 1))
        else:
            self.members.release(number)

    def _within(
        self, room: int, digests: Digests, wanted: NDArray[np.uint8]
    ) -> tuple[Digests, NDArray[np.uint8]]:
        """All that goes, and of what comes as much as there is room for."""
        come = wanted != 0
        kept = ~come | (come.cumsum() <= room)
        self._beyond += int((~kept).sum())
        return np.ascontiguousarray(digests[kept]), np.ascontiguousarray(wanted[kept])

    def _note(self, member: Member, digests: Digests, codes: NDArray[np.uint8]) -> None:
        kinds = _KINDS[codes]
        told = np.flatnonzero(kinds)
        if len(told) and self._events is not None:
            self._events.note(member.row, digests[told], kinds[told])

    def _names_of(self, digests: Digests) -> Texts:
        return Texts() if self.names is None else texts_of(self.names.of(digests))

    def _row(self, number: int) -> Row:
        member = self.members.numbered(number)
        assert member is not None, "who is alive is a member"
        return member.row

    def _has(self, digests: Digests) -> NDArray[np.bool_]:
        has: NDArray[np.bool_] = np.asarray(self._known(digests).any(1))
        return has

    def _known(self, digests: Digests) -> Places:
        places = self.table.find(digests)
        if self._dead:
            places *= self._alive[places]
        return places

    def _named(self, places: Places) -> dict[int, Where]:
        numbers = np.flatnonzero(np.bincount(places.ravel(), minlength=1))
        members = [self.members.numbered(number) for number in numbers.tolist() if number]
        return {each.number: each.where for each in members if each is not None}

    def _spend(self, places: Places, sizes: Words) -> None:
        """Until it is heard of again, a node has less free by what is about to go there."""
        for number in self._named(places):
            member = self.members.numbered(number)
            if member is not None:
                spent = int(sizes[(places == number).any(1)].sum())
                member.free = max(member.free - spent, 0)


# Of what was told, in the order of the PLACE codes.
_TOLD = ("added", "known", "crowded", "full", "dropped", "unknown")

# What an event tells of it.
_KINDS = np.zeros(len(_TOLD), np.uint8)
_KINDS[_core.PLACE_ADDED], _KINDS[_core.PLACE_DROPPED] = STORED, REMOVED_AT
