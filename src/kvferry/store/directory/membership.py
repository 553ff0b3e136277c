"""Which nodes there are, and which of them are thought to be alive.

          heard      silent     lost    leaves     ended, replaced
ALIVE     ALIVE      SUSPECT    DEAD    LEAVING    DEAD
SUSPECT   ALIVE      SUSPECT    DEAD    LEAVING    DEAD
LEAVING   LEAVING    LEAVING    DEAD    LEAVING    DEAD

A suspect is asked last, and given nothing; who leaves is asked, and given nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ...errors import Full, UsageError
from .events import Row
from .messages import Enroll, Where

__all__ = ["Event", "Member", "Membership", "Spans", "State"]

SECOND = 1_000_000_000
NODES = 4096  # at once


class State(Enum):
    ALIVE = "alive"
    SUSPECT = "suspect"
    LEAVING = "leaving"
    DEAD = "dead"


class Event(Enum):
    HEARD = "heard"
    SILENT = "silent"
    LOST = "lost"
    LEAVES = "leaves"
    ENDED = "ended"


_NEXT = {
    (State.ALIVE, Event.HEARD): State.ALIVE,
    (State.ALIVE, Event.SILENT): State.SUSPECT,
    (State.ALIVE, Event.LOST): State.DEAD,
    (State.ALIVE, Event.LEAVES): State.LEAVING,
    (State.ALIVE, Event.ENDED): State.DEAD,
    (State.SUSPECT, Event.HEARD): State.ALIVE,
    (State.SUSPECT, Event.SILENT): State.SUSPECT,
    (State.SUSPECT, Event.LOST): State.DEAD,
    (State.SUSPECT, Event.LEAVES): State.LEAVING,
    (State.SUSPECT, Event.ENDED): State.DEAD,
    (State.LEAVING, Event.HEARD): State.LEAVING,
    (State.LEAVING, Event.SILENT): State.LEAVING,
    (State.LEAVING, Event.LOST): State.DEAD,
    (State.LEAVING, Event.LEAVES): State.LEAVING,
    (State.LEAVING, Event.ENDED): State.DEAD,
}


class Spans(NamedTuple):
    """Nanoseconds.

    beat     within which a node should be heard of
    suspect  of silence, after which it is a suspect
    dead     of silence, after which it is dead
    late     by which the directory's own rounds may come late, before it takes its own silence for
             the cause of everybody's
    ramp     over which a new node is given more and more
    repair   from one look at what has to be copied again to the next
    """

    beat: int = SECOND
    suspect: int = 3 * SECOND
    dead: int = 10 * SECOND
    late: int = SECOND
    ramp: int = 60 * SECOND
    repair: int = 10 * SECOND

    def check(self) -> Spans:
        """Raises UsageError for spans that do not follow each other."""
        rest = (self.late, self.ramp, self.repair)
        if not 0 < self.beat < self.suspect < self.dead or min(rest) <= 0:
            raise UsageError(f"{self} do not follow each other", cause="spans")
        return self


@dataclass(eq=False)
class Member:
    """A node, since it enrolled.

    number  names it and what it told; another one's when the table has forgotten that
    began   this life of it, ns since 1970
    since   when this life was first heard of, and `heard`, when last; ns of the directory's clock
    seq     of the report that comes next
    whole   it has told all that it had when it enrolled
    back    it was not known the moment before: what it has may be older than what was told since
    """

    number: int
    epoch: int
    began: int
    where: Where
    domain: str
    capacity: int
    free: int
    keys: int
    since: int
    heard: int
    disk: bool = False
    seq: int = 0
    whole: bool = False
    back: bool = True
    state: State = field(default=State.ALIVE)

    @property
    def name(self) -> str:
        return self.where.address

    @property
    def row(self) -> Row:
        """As events name it."""
        return Row(self.name, "dram+ssd" if self.disk else "dram")

    def meet(self, event: Event) -> None:
        self.state = _NEXT[self.state, event]


class Membership:
    """All nodes that are not dead. Not thread-safe; `now` is ns of one clock."""

    def __init__(self, spans: Spans, now: int) -> None:
        self.spans = spans
        self._by_number: dict[int, Member] = {}
        self._by_epoch: dict[int, Member] = {}
        self._by_name: dict[str, Member] = {}
        self._taken: set[int] = set()  # numbers that the table still has, beside those of members
        self._last = 0  # number given
        self._swept = now

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_number.values()))

    def __len__(self) -> int:
        return len(self._by_number)

    def of(self, epoch: int) -> Member | None:
        """One life of a node."""
        return self._by_epoch.get(epoch)

    def numbered(self, number: int) -> Member | None:
        return self._by_number.get(number)

    def enroll(self, epoch: int, hello: Enroll, now: int) -> tuple[Member, list[Member]]:
        """The node is there, under a new number; and whose place it takes, which are dead: itself
        as it was, and an earlier life of it. Raises UsageError (superseded) for an earlier life
        itself, Full when there are too many."""
        same, named = self._by_epoch.get(epoch), self._by_name.get(hello.address)
        if named is not None and named is not same and named.began > hello.began:
            raise UsageError("a later life of this node is there", cause="superseded")
        past = list(dict.fromkeys(each for each in (same, named) if each is not None))
        if len(self) - len(past) >= NODES:
            raise Full(f"there are {NODES} nodes", cause="too_many_nodes")
        leaving = same is not None and same.state is State.LEAVING
        for each in past:
            self._end(each)
        member = Member(
            number=self._new_number(),
            epoch=epoch,
            began=hello.began,
            where=Where(epoch, hello.address),
            domain=hello.domain,
            capacity=hello.capacity,
            free=hello.free,
            keys=hello.keys,
            disk=hello.disk,
            since=now if same is None else same.since,
            heard=now,
            back=same is None or (same.back and not same.whole),
        )
        self._by_number[member.number] = member
        self._by_epoch[epoch] = self._by_name[member.name] = member
        if leaving:
            member.meet(Event.LEAVES)
        return member, past

    def hear(self, member: Member, now: int) -> None:
        member.heard = now
        member.meet(Event.HEARD)

    def leave(self, member: Member, ended: bool) -> None:
        if ended:
            self._end(member)
        else:
            member.meet(Event.LEAVES)

    def sweep(self, now: int) -> list[Member]:
        """Look at who is silent: those that are dead now. To be called often; where that did not
        happen, nobody could be heard, and everybody is given that time."""
        gap, self._swept = now - self._swept, now
        if gap > self.spans.late:
            for member in self:
                member.heard = min(member.heard + gap, now)
        dead = []
        for member in self:
            silence = now - member.heard
            if silence >= self.spans.dead:
                member.meet(Event.LOST)
                self._end(member)
                dead.append(member)
            elif silence >= self.spans.suspect:
                member.meet(Event.SILENT)
        return dead

    def release(self, number: int) -> None:
        """The table knows nothing of the dead one any more: its number is free."""
        self._taken.discard(number)

    def _end(self, member: Member) -> None:
        member.state = State.DEAD
        del self._by_number[member.number]
        if self._by_epoch.get(member.epoch) is member:
            del self._by_epoch[member.epoch]
        if self._by_name.get(member.name) is member:
            del self._by_name[member.name]
        self._taken.add(member.number)

    def _new_number(self) -> int:
        """As long as possible none that was in use before."""
        number = self._last
        for _ in range(1 << 16):
            number = number % 0xFFFF + 1
            if number not in self._taken and number not in self._by_number:
                self._last = number
                return number
        raise Full("no number is free", cause="too_many_nodes")
