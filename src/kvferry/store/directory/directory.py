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
from .membership import Member, Membership, Spans, State
from .messages import (
    REMOVED,
    VERSION,
    Enroll,
    Enrolled,
    Order,
    Placed,
    Places,
    Report,
    Where,
    rows_in,
)
from .placement import Candidates, choose
from .removals import Removals
from .repair import Repair

__all__ = ["ROWS", "SPANS", "Directory"]

SPANS = Spans()
ROWS = 1 << 26  # 64 Mi keys, 3.3 GB at most
FORGOTTEN_AT_ONCE = 8  # parts of the table, a round


class Directory:
    """One term of it, for one tenant. Pure, one thread at a time; `now` is ns of one clock.

    Nodes are the truth. What one told is believed from when it enrolled until it is dead or enrolls
    again; then it is forgotten, part by part, and until that is done nobody is told of it.

    term  names this table: who speaks of another one has to enroll
    rows  at most: what is reported beyond is not remembered, and counted
    """

    def __init__(
        self, term: int, now: int, *, rows: int = ROWS, spans: Spans = SPANS, seed: bytes = b""
    ) -> None:
        self.term = term
        self.rows = rows
        self.spans = spans.check()
        self.members = Membership(spans, now)
        self.table = _core.Places(rows, seed or secrets.token_bytes(16))
        self._repair = Repair(self.table, self.members, now + spans.dead)
        self._alive = np.zeros(1 << 16, np.bool_)  # numbers of members
        self._dead: deque[tuple[int, int]] = deque()  # numbers to be forgotten, from which part on
        self._removals = Removals()
        self._codes = np.zeros(6, np.int64)  # how often each came of what was told
        self._beyond = 0  # keys that a node told beyond those it said it has at most

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
        return Enrolled(self.term, member.number, self.spans.beat, member.keys)

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

    # ---- users ----

    def lookup(self, digests: Digests) -> Placed:
        """Where keys are: suspects last."""
        places = self._known(digests)
        suspects = [each.number for each in self.members if each.state is State.SUSPECT]
        if suspects:
            last = np.isin(places, suspects).argsort(1, kind="stable")
            places = np.take_along_axis(places, last, 1)
        return Placed(column_of(places), self._named(places), len(self.members))

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

    # ---- rounds ----

    def sweep(self, now: int) -> list[Member]:
        """To be called several times a second: who is dead since the last time."""
        dead = self.members.sweep(now)
        for member in dead:
            self._bury(member)
            self._repair.hurry(now)
        for _ in range(FORGOTTEN_AT_ONCE):
            self._forget_some()
        if not self._dead:
            self._repair.step(now)
        return dead

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
            **told,
        }

    # ---- steps ----

    def _heard(self, epoch: int, term: int, now: int) -> Member | None:
        member = self.members.of(epoch) if term == self.term else None
        if member is not None:
            self.members.hear(member, now)
        return member

    def _bury(self, member: Member) -> None:
        self._alive[member.number] = False
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
