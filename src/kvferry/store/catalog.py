"""What a node decides with: which object lies where, who may write, who stays, who leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .answers import Answer, Answers, Cause, Digests, Pin
from .attempts import Attempts, State
from .departures import Departures, Hazards
from .evictor import Evictor
from .extents import NOWHERE, Extents
from .ghosts import Ghosts
from .integrity import complaints
from .policies import Policy
from .records import Evicted, Leased, Limits, Reserved, Usage
from .table import Entries, IndexLike, Ints, Words, prints_of

__all__ = ["Catalog"]

LIMITS = Limits()


class Catalog:
    """The objects of one tenant in one pool. Every verb takes a batch and answers per key.

    It holds no bytes, opens no socket and knows no clock: `now` is nanoseconds of the caller's
    clock. One thread at a time. No verb waits for anybody.

    index    where readers find objects; written through this catalog alone
    extents  free space of the pool
    policy   who leaves first; of as many slots as the index
    hazards  tells which of some generations a reader holds this moment
    """

    def __init__(
        self,
        index: IndexLike,
        extents: Extents,
        policy: Policy,
        hazards: Hazards,
        limits: Limits = LIMITS,
    ) -> None:
        self.limits = limits
        self._index = index
        self._extents = extents
        self._policy = policy
        self._ghosts = Ghosts(limits.ghosts)
        self._departures = Departures(index, extents, hazards, self._ghosts)
        self._evictor = Evictor(index, policy, self._departures)
        self._attempts = Attempts()
        self._expires = np.zeros(index.capacity, np.int64)  # 0: never
        self._expiring = False  # some object was stored with a moment to expire at
        self._generation = 1
        self._draining = False

    # Writing

    def reserve(self, user: int, sizes: Ints, now: int) -> Reserved:
        """Extents to write objects of up to these sizes into; evicts what it must.

        RESERVED, TOO_LARGE, DRAINING, or why there is no room: FULL, LEASED, PINNED, FRAGMENTED.
        """
        rooms = self._extents.rooms(sizes)
        answers = np.full(len(sizes), Answer.RESERVED, np.uint8)
        answers[sizes > self._extents.capacity] = Answer.TOO_LARGE
        if self._draining:
            answers[:] = Answer.DRAINING
        asked = np.flatnonzero(answers == Answer.RESERVED)
        offsets = np.zeros(len(sizes), np.int64)
        offsets[asked] = self._place(rooms[asked], now)
        missing = asked[offsets[asked] == NOWHERE]
        if len(missing):
            answers[missing] = self._why_full(int(rooms[missing].min()), now)
        given = asked[offsets[asked] != NOWHERE]
        attempts = np.zeros(len(sizes), np.uint64)
        attempts[given] = self._attempts.open(user, offsets[given], rooms[given])
        refused = answers != Answer.RESERVED
        offsets[refused] = rooms[refused] = 0
        return Reserved(answers, attempts, offsets, rooms)

    def commit(
        self,
        user: int,
        attempts: Words,
        digests: Digests,
        lengths: Words,
        now: int,
        *,
        attrs: Words | None = None,
        parents: Digests | None = None,
        expires: Ints | None = None,
    ) -> Answers:
        """What was written becomes objects, each whole and for good.

        STORED; PRESENT: the key was there, and stays as it was; in both cases the attempt is over.
        LATE, UNKNOWN. INDEX_FULL and TOO_LARGE (longer than its extent): the attempt stands.
        `parents` are the keys without which these are of no use; a key without one names itself.
        """
        rows, states = self._attempts.find(user, attempts)
        answers = _of_states(states, Answer.STORED)
        lengths = np.asarray(lengths, np.uint64)
        live = np.flatnonzero(answers == Answer.STORED)
        long = live[lengths[live] > self._attempts.rooms[rows[live]].astype(np.uint64)]
        answers[long] = Answer.TOO_LARGE
        live = np.flatnonzero(answers == Answer.STORED)
        attrs = np.zeros(len(rows), np.uint64) if attrs is None else attrs
        generations = self._next_generations(len(live))
        offsets, rooms = self._attempts.offsets[rows[live]], self._attempts.rooms[rows[live]]
        slots = self._insert(
            now,
            digests[live],
            generations,
            offsets.astype(np.uint64),
            lengths[live],
            rooms.astype(np.uint64),
            attrs[live],
        )
        stored, present = slots >= 0, slots == -3
        answers[live[present]] = Answer.PRESENT
        answers[live[slots == -2]] = Answer.INDEX_FULL
        self._attempts.close(rows[live[stored | present]])
        self._extents.give(offsets[present], rooms[present])
        fresh = slots[stored]
        if expires is not None or self._expiring:
            self._expires[fresh] = 0 if expires is None else expires[live[stored]]
            self._expiring = True
        above = None if parents is None else self._above(parents[live[stored]], fresh)
        self._policy.insert(fresh, rooms[stored], prints_of(digests[live[stored]]), above)
        self._note_refusals(digests, answers)
        return answers

    def abort(self, user: int, attempts: Words) -> Answers:
        """The user will not write there any more: ABORTED, also of what was in quarantine."""
        rows, states = self._attempts.find(user, attempts)
        answers = _of_states(states, Answer.ABORTED)
        answers[states == State.QUARANTINED] = Answer.ABORTED
        self._free(rows[answers == Answer.ABORTED])
        return answers

    def quarantine(self, user: int) -> int:
        """The user is silent or being put out: bytes that it may still be writing, and no more."""
        rows = self._attempts.of(user)
        self._attempts.quarantine(rows)
        return int(self._attempts.rooms[rows].sum())

    def gone(self, user: int) -> int:
        """The user has exited, or its channel is closed and quiet: bytes that became free."""
        self._evictor.leases.release_all(user)
        return self._free(self._attempts.of(user))

    # Reading

    def find(self, digests: Digests) -> Entries:
        """The entry of each key, of generation 0 where it is absent."""
        return self._index.read(self._index.find(digests))

    def touch(self, slots: Ints, low: NDArray[np.uint32]) -> None:
        """These were read, in this order, when the low half of their generation was `low`.

        Users say so, and may say anything: what names no object that is there counts for nothing.
        """
        there = self._index.read(slots)["generation"]
        self._policy.touch(slots[(there != 0) & (there.astype(np.uint32) == low)])

    def why(self, digests: Digests) -> NDArray[np.uint8]:
        """Of each key a Cause."""
        told = self._ghosts.recall(prints_of(digests)).astype(np.uint8)
        told[told == 0] = Cause.NEVER
        told[self._index.find(digests) >= 0] = Cause.PRESENT
        return told

    # Staying

    def lease(self, user: int, digests: Digests, now: int, until: int) -> Leased:
        """Objects stay until then, or until the longest lease there is; FOUND or ABSENT."""
        until = min(until, now + self.limits.longest_lease)
        entries = self.find(digests)
        found = entries[entries["generation"] != 0]
        answers = np.where(entries["generation"] != 0, Answer.FOUND, Answer.ABSENT)
        slots = found["slot"].astype(np.int64)
        ticket = 0
        if len(found):
            generations = np.ascontiguousarray(found["generation"])
            ticket = self._evictor.leases.grant(user, slots, generations, until)
            self._policy.touch(slots)
        return Leased(ticket, until, answers.astype(np.uint8), entries)

    def renew(self, user: int, ticket: int, now: int, until: int) -> bool:
        """False: it has ended, and the objects may have left."""
        until = min(until, now + self.limits.longest_lease)
        return self._evictor.leases.renew(user, ticket, until, now)

    def release(self, user: int, ticket: int) -> bool:
        """False: it had ended. Harmless when repeated."""
        return self._evictor.leases.release(user, ticket)

    def pin(self, digests: Digests, pin: Pin) -> Answers:
        """FOUND, or ABSENT. A pin falls with its object, and counts no callers."""
        slots = self._index.find(digests)
        self._evictor.pin(slots[slots >= 0], pin)
        return _found(slots)

    def group(self, digests: Digests) -> Answers:
        """Those that are FOUND leave together, with whoever was in a group with one of them."""
        slots = self._index.find(digests)
        if (slots >= 0).any():
            self._evictor.groups.join(np.unique(slots[slots >= 0]))
        return _found(slots)

    # Leaving

    def remove(self, digests: Digests, now: int, cause: Cause = Cause.REMOVED) -> Answers:
        """REMOVED, ABSENT, or LEASED: not before the lease ends."""
        slots = self._index.find(digests)
        answers = np.full(len(slots), Answer.ABSENT, np.uint8)
        found = np.flatnonzero(slots >= 0)
        leased = self._evictor.leases.held(slots[found], now)
        answers[found[leased]] = Answer.LEASED
        going = found[~leased]
        going = going[np.unique(slots[going], return_index=True)[1]]  # of a key twice, the first
        answers[going] = Answer.REMOVED
        self._leave(slots[going], cause)
        return answers

    def evict(self, needed: int, now: int) -> Evicted:
        """At least this many bytes become free, or all that can."""
        freed = self._departures.settle()
        return Evicted(0, freed, 0) + self._evictor.evict(needed - freed, now)

    def trim(self, now: int) -> Evicted:
        """Above a high watermark, of bytes or of entries, objects leave down to the low one."""
        freed = self._departures.settle()
        return Evicted(0, freed, 0) + self._evictor.evict(self._excess(), now)

    def expire(self, now: int) -> Evicted:
        """Leases that have ended end; objects whose moment has come leave, unless leased."""
        self._evictor.leases.expire(now)
        freed = Evicted(0, self._departures.settle(), 0)
        if not self._expiring:
            return freed
        due = np.flatnonzero((self._expires != 0) & (self._expires <= now))
        due = due[~self._evictor.leases.held(due, now)]
        self._expires[due] = 0
        # Some were of objects that left before, whose slots are empty.
        return freed + self._leave(due[self._index.read(due)["generation"] != 0], Cause.EXPIRED)

    def drain(self, now: int) -> Evicted:
        """Take nothing in any more; all that is not leased leaves. To be repeated until empty."""
        self._draining = True
        slots = self._policy.members()
        left = self._leave(slots[~self._evictor.leases.held(slots, now)], Cause.DRAINED)
        return left + Evicted(0, self._departures.settle(), 0)

    # Looking

    def note(self, digests: Digests, cause: Cause) -> None:
        """Keys are not here for a cause that the caller knows."""
        self._departures.remember(digests, cause)

    def usage(self) -> Usage:
        return Usage(
            capacity=self._extents.capacity,
            free=self._extents.free,
            objects=self._policy.bytes,
            reserved=self._attempts.bytes(State.RESERVED),
            quarantined=self._attempts.bytes(State.QUARANTINED),
            deferred=self._departures.bytes,
            count=self._index.count,
        )

    def check_integrity(self) -> list[str]:
        """What is wrong, a sentence each; takes as long as the catalog is large."""
        return complaints(
            self._index,
            self._extents,
            self._policy,
            self._attempts,
            self._departures,
            self._evictor,
        )

    # Room

    def _place(self, rooms: Ints, now: int) -> Ints:
        """An offset for each room, or NOWHERE when nothing more may leave."""
        offsets = self._extents.take(rooms)
        missing = np.flatnonzero(offsets == NOWHERE)
        if len(missing):
            needed = int(rooms[missing].sum())
            gone = self.evict(needed, now)
            offsets[missing] = self._extents.take(rooms[missing])
            if gone.bytes >= needed:
                self._clear(missing[offsets[missing] == NOWHERE], rooms, offsets, now)
        return offsets

    def _clear(self, missing: Ints, rooms: Ints, offsets: Ints, now: int) -> None:
        """Bytes enough are free, but scattered: what is between them leaves, for one room after
        the other. What finds no place leaves none to a larger one."""
        for at in missing[np.argsort(rooms[missing])].tolist():
            self._evictor.clear(self._extents.holes(), int(rooms[at]), now)
            offsets[at] = self._extents.take(rooms[at : at + 1])[0]
            if offsets[at] == NOWHERE:
                return

    def _why_full(self, room: int, now: int) -> Answer:
        free = self._extents.free
        if free >= room:
            return Answer.FRAGMENTED
        slots = self._policy.members()
        leased = self._evictor.leases.held(slots, now)
        if free + int(self._policy.sizes[slots[leased]].sum()) >= room:
            return Answer.LEASED
        return Answer.PINNED if free + self._policy.bytes >= room else Answer.FULL

    def _excess(self) -> int:
        """Bytes above the low watermark, if the high one is passed."""
        used, capacity = self._extents.capacity - self._extents.free, self._extents.capacity
        excess = used - self.limits.low * capacity if used > self.limits.high * capacity else 0
        return max(int(excess), self._excess_entries(0))

    def _excess_entries(self, more: int) -> int:
        """Bytes of as many mean objects as the index would have too many with `more` of them."""
        count, capacity = self._index.count + more, self._index.capacity
        if count <= self.limits.entries_high * capacity:
            return 0
        mean = self._policy.bytes / max(self._policy.count, 1)
        return int((count - self.limits.entries_low * capacity) * mean)

    # Steps

    def _insert(self, now: int, digests: Digests, *columns: Words) -> Ints:
        """Slots or codes. Keys whose entries are all taken, few of many, go one by one: each of
        them has other rivals, of which one has to leave."""
        self._evictor.evict(self._excess_entries(len(digests)), now)
        slots = self._index.insert(digests, *columns)
        for at in np.flatnonzero(slots == -2).tolist():
            one = slice(at, at + 1)
            rivals = self._index.rivals(digests[one])[0]
            if self._evictor.displace(rivals, now).objects:
                slots[one] = self._index.insert(digests[one], *(column[one] for column in columns))
        return slots

    def _above(self, parents: Digests, slots: Ints) -> Ints:
        """Slots of parents; of one that is absent, the child's own."""
        above = self._index.find(parents)
        return np.where(above < 0, slots, above)

    def _next_generations(self, count: int) -> Words:
        start = self._generation
        self._generation += count
        return np.arange(start, start + count, dtype=np.uint64)

    def _note_refusals(self, digests: Digests, answers: Answers) -> None:
        refused = answers >= Answer.TOO_LARGE
        if refused.any():
            self._departures.remember(digests[refused], Cause.REFUSED)

    def _free(self, rows: Ints) -> int:
        offsets, rooms = self._attempts.offsets[rows], self._attempts.rooms[rows]
        self._attempts.close(rows)
        self._extents.give(offsets, rooms)
        return int(rooms.sum())

    def _leave(self, slots: Ints, cause: Cause) -> Evicted:
        if not len(slots):
            return Evicted()
        return self._evictor.leave(self._index.read(slots), cause)


def _of_states(states: NDArray[np.uint8], reserved: Answer) -> Answers:
    """What is said of attempts in these states; `reserved` of those that stand."""
    said = np.array([Answer.UNKNOWN, Answer.LATE, reserved, Answer.LATE], np.uint8)
    return said[states]


def _found(slots: Ints) -> Answers:
    return np.where(slots >= 0, Answer.FOUND, Answer.ABSENT).astype(np.uint8)
