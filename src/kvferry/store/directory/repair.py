"""What has to be copied again, since too few nodes have it."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..answers import Digests
from ..messages import column_of
from .membership import Member, Membership, State
from .messages import Order, Places
from .placement import Candidates, choose

__all__ = ["Repair"]

LONGEST = 32  # pauses; each is twice as long as the last while there is nobody to copy to
LONG = 8  # while copying does not help
MOST_AHEAD = 1 << 16  # keys that wait for one node to copy them
AT_ONCE = 4096  # rows looked at
BEATS = 2  # the last copies have been reported by then


class Repair:
    """Goes round the table while some keys are at fewer nodes than they should be. Pure.

    A round looks at each row once and gives it to one of the nodes that have it, which asks for its
    orders when it has time. The next begins when all orders were taken, and some time has gone. It
    leaves out what nodes have that are still copying what they took: nothing is copied twice.
    An order that was lost is given again when they are done.

    begins  ns, before which the table is not believed: nodes have to tell first what they have
    """

    def __init__(self, table: _core.Places, members: Membership, begins: int) -> None:
        self._table = table
        self._members = members
        self._next = begins
        self._pause = members.spans.repair
        self._at: tuple[int, int] | None = None  # shard and row, in a round
        self._lacking: int | None = None  # after the last round, if nodes are the same since
        self._given = 0  # in this round, or under way since an earlier one
        self._orders: dict[int, deque[tuple[int, Digests]]] = {}  # survivor -> target, keys
        self._rooms: dict[int, int] = {}  # the most that each node told
        self._busy: dict[int, int] = {}  # after how many beats with all their room nodes are done
        self._left_out = np.zeros(1 << 16, np.bool_)  # numbers of those that were, in this round

    def hurry(self, now: int) -> None:
        """Some places were lost, or a node came: look soon."""
        first, self._pause = self._pause, self._members.spans.repair
        self._lacking = None
        if self._at is None and first != self._pause:
            self._next = min(self._next, now + self._pause)

    def step(self, now: int) -> None:
        """A little of a round."""
        if self._at is None:
            if now < self._next or not self._table.lacking or any(self._orders.values()):
                return
            self._at, self._given = (0, 0), 0
            self._left_out[:] = False
            self._left_out[list(self._busy)] = True
        there = Candidates.of(list(self._members), self._members.spans, now)
        shard, start = self._at
        if max(map(self._waiting, self._orders), default=0) >= MOST_AHEAD:
            return
        start, rows = self._table.scan(shard, start, AT_ONCE, lacking=True)
        if len(rows):
            self._assign(rows["digest"], rows["places"], there)
            self._at = shard, start
        elif shard + 1 < _core.SHARDS:
            self._at = shard + 1, 0
        else:
            self._at = None
            self._end(now)

    def _end(self, now: int) -> None:
        """Of a round: it did good if orders were given, and those of the last round helped; in full
        pools what is copied only takes the place of other copies."""
        pause, lacking = self._members.spans.repair, self._table.lacking
        helped = self._lacking is None or lacking < self._lacking
        longest = pause * (LONGEST if not self._given else 1 if helped else LONG)
        self._pause = min(2 * self._pause, longest)
        self._next, self._lacking = now + self._pause, lacking

    def take(self, member: Member, room: int) -> tuple[Order, ...]:
        """Orders for one node, of so many keys at most."""
        self._see(member.number, room)
        waiting, taken = self._orders.get(member.number, deque()), []
        while waiting and room > 0:
            target, digests = waiting.popleft()
            if len(digests) > room:
                waiting.appendleft((target, digests[room:]))
            to = self._members.numbered(target)
            if to is not None and to.state is State.ALIVE:
                taken.append(Order(to.where, column_of(digests[:room])))
                room -= len(digests[:room])
                self._busy[member.number] = BEATS
        return tuple(taken)

    def forget(self, number: int) -> None:
        """The node is dead: nobody copies from there."""
        for known in (self._orders, self._rooms, self._busy):
            known.pop(number, None)

    def _see(self, number: int, room: int) -> None:
        most = self._rooms[number] = max(room, self._rooms.get(number, 0))
        if number in self._busy:
            self._busy[number] = BEATS if room < most else self._busy[number] - 1
            if not self._busy[number]:
                del self._busy[number]

    def _waiting(self, number: int) -> int:
        return sum(len(digests) for _, digests in self._orders[number])

    def _assign(
        self,
        digests: Digests,
        places: Places,
        there: Candidates,
    ) -> None:
        """One more copy each; where more are lacking, the next round sees to it."""
        under_way = self._left_out[places].any(1)
        self._given += int(under_way.sum())
        digests, places = digests[~under_way], places[~under_way]
        sound = np.zeros(1 << 16, np.bool_)
        sound[[each.number for each in self._members if each.state is not State.SUSPECT]] = True
        from_them = sound[places]
        survivors = places[np.arange(len(places)), from_them.argmax(1)]
        copies: NDArray[np.int64] = np.asarray(from_them.any(1), np.int64)
        targets = choose(
            np.ascontiguousarray(digests), np.zeros(len(digests), np.uint64), places, copies, there
        )[:, 0]
        pairs = survivors.astype(np.int64) << 16 | targets
        for pair in np.unique(pairs[targets != 0]).tolist():
            some = np.ascontiguousarray(digests[pairs == pair])
            self._orders.setdefault(pair >> 16, deque()).append((pair & 0xFFFF, some))
            self._given += len(some)
