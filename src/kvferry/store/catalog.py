"""What a node decides with: which object lies where, who may write, who stays, who leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .answers import Answer, Answers, Cause, Digests, Pin
from .departures import Departures, Hazards, either
from .evictor import Dear, Evictor
from .expiry import Expiry
from .extents import Extents
from .ghosts import Ghosts
from .intake import Intake
from .integrity import complaints
from .leases import UNSHARED
from .lingering import Lingering
from .policies import Policy
from .records import Commits, Evicted, Leased, Limits, Reserved, Usage
from .reservations import Reservations
from .space import Space
from .table import Entries, Ints, LedgerLike, SharedLike, Words, prints_of
from .witness import Witness

__all__ = ["Catalog"]

LIMITS = Limits()


class Catalog:
    """The objects of one tenant in one pool. Every verb takes a batch and answers per key.

    It holds no bytes, opens no socket and knows no clock: `now` is nanoseconds of the caller's
    clock. One thread at a time. No verb waits for anybody.

    ledger     commits to it are the caller's as well; of `limits.entries` of its index. What was
             stored meanwhile is taken in by the verbs that have to know
    extents    free space of the pool
    policy     who leaves first; of as many slots as the index
    hazards    tells which of some generations a reader holds this moment
    witnesses  learn who comes and who leaves
    dear       which objects are lost when they leave: others leave in their place, if they may
    shared     leases that users take without asking, in ns since boot as `now` is then
    """

    def __init__(
        self,
        ledger: LedgerLike,
        extents: Extents,
        policy: Policy,
        hazards: Hazards,
        limits: Limits = LIMITS,
        witnesses: Sequence[Witness] = (),
        dear: Dear | None = None,
        shared: SharedLike = UNSHARED,
    ) -> None:
        self.limits = limits
        self._ledger = ledger
        self._index = ledger.index
        self._extents = extents
        self._policy = policy
        self._ghosts = Ghosts(limits.ghosts)
        self._lingering = Lingering()
        held = either(hazards, self._lingering.held)
        self._departures = Departures(self._index, extents, held, self._ghosts, witnesses)
        longest = limits.longest_lease
        self._evictor = Evictor(self._index, policy, self._departures, dear, shared, longest)
        parts = self._index, extents, policy, self._departures, self._evictor
        self._space = Space(*parts, limits)
        self._reservations = Reservations(ledger, extents, self._space, limits)
        self._expiry = Expiry(policy.slots)
        self._intake = Intake(ledger, extents, policy, self._expiry, self._departures, witnesses)
        self._draining = False

    # Writing

    def reserve(self, user: int, sizes: Ints, now: int) -> Reserved:
        """Extents to write objects of up to these sizes into; evicts what it must.

        RESERVED, TOO_LARGE, DRAINING, or why there is no room: FULL, LEASED, PINNED, FRAGMENTED.
        A user that would hold more than its share of the pool is told FULL, in order of the sizes.
        """
        self._intake.take()
        if self._draining:
            return Reserved.none(Answer.DRAINING, len(sizes))
        return self._reservations.reserve(user, sizes, now)

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
        expires: Ints | Words | None = None,
    ) -> Answers:
        """What was written becomes objects, each whole and for good; others leave if they must.

        STORED; PRESENT: the key was there, and stays as it was; in both cases the attempt is over.
        LATE, UNKNOWN. INDEX_FULL and TOO_LARGE (longer than its extent): the attempt stands.
        `parents` are the keys without which these are of no use, and there before them; a key
        without one names itself.
        """
        self._intake.take()
        sizes, moments = _words(lengths), None if expires is None else _words(expires)
        commits = Commits(attempts, digests, sizes, attrs, parents, moments)
        answers = self._ledger.commit(user, *commits)
        self._intake.take()
        left = np.flatnonzero(answers == Answer.INDEX_FULL)
        if len(left):
            answers[left] = self._insist(user, commits.some(left), now)
        return answers

    def abort(self, user: int, attempts: Words) -> Answers:
        """The user will not write there any more: ABORTED, also of what was in quarantine."""
        answers, offsets, rooms = self._ledger.abort(user, attempts)
        self._extents.give(offsets, rooms)
        return answers

    def quarantine(self, user: int) -> int:
        """The user is silent or being put out: bytes that it may still be writing, and no more."""
        return self._ledger.quarantine(user)

    def gone(self, user: int) -> int:
        """The user has exited, or its channel is closed and quiet: bytes that became free."""
        self._evictor.leases.release_all(user)
        offsets, rooms = self._ledger.gone(user)
        self._extents.give(offsets, rooms)
        return int(rooms.sum())

    # Reading

    def find(self, digests: Digests) -> Entries:
        """The entry of each key, of generation 0 where it is absent."""
        return self._index.read(self._index.find(digests))

    def touch(self, slots: Ints, low: NDArray[np.uint32]) -> None:
        """These were read, in this order, when the low half of their generation was `low`.

        Users say so, and may say anything: what names no object that is there counts for nothing.
        """
        self._intake.take()
        there = self._index.read(slots)["generation"]
        self._policy.touch(slots[(there != 0) & (there.astype(np.uint32) == low)])

    def why(self, digests: Digests) -> NDArray[np.uint8]:
        """Of each key a Cause."""
        told = self.recall(prints_of(digests))
        told[self._index.find(digests) >= 0] = Cause.PRESENT
        return told

    def recall(self, prints: Words) -> NDArray[np.uint8]:
        """A Cause for each key of which only the print is known, and that it is not here."""
        self._intake.take()
        told = self._ghosts.recall(prints).astype(np.uint8)
        told[told == 0] = Cause.NEVER
        return told

    # Staying

    def lease(self, user: int, digests: Digests, now: int, until: int) -> Leased:
        """Objects stay until then, or until the longest lease there is; FOUND or ABSENT. What has
        expired is not kept by new leases."""
        self._intake.take()
        until = min(until, now + self.limits.longest_lease)
        entries = self.find(digests)
        there = entries["generation"] != 0
        there[there] = ~self._expiry.over(entries["slot"][there], now)
        entries["generation"][~there] = 0
        answers = np.where(there, Answer.FOUND, Answer.ABSENT).astype(np.uint8)
        slots = entries["slot"][there].astype(np.int64)
        self.used(slots)
        ticket = self.keep(user, slots, entries["generation"][there], until)
        return Leased(ticket, until, answers, entries)

    def keep(self, user: int, slots: Ints, generations: Words, until: int) -> int:
        """The ticket of a lease on objects that are there; 0: there are none."""
        return self._evictor.leases.grant(user, slots, generations, until) if len(slots) else 0

    def moments(self) -> Words:
        """When the object at each slot expires; 0: never. All that was stored is taken in: what the
        index says is true until the next verb, or commit."""
        self._intake.take()
        return self._expiry.moments

    def used(self, slots: Ints) -> None:
        """Objects that are there were found, in this order."""
        if len(slots):
            self._policy.touch(slots)

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

    def remove(
        self, digests: Digests, now: int, cause: Cause = Cause.REMOVED, *, force: bool = False
    ) -> Answers:
        """REMOVED, ABSENT, or LEASED: not before the lease ends. By force no lease keeps one: its
        bytes alone stay until then, for who has the lease may be reading them."""
        self._intake.take()
        slots = self._index.find(digests)
        answers = np.full(len(slots), Answer.ABSENT, np.uint8)
        found = np.flatnonzero(slots >= 0)
        with self._evictor.leases.sweep():
            leased = self._evictor.leases.held(slots[found], now)
            if force:
                self._linger(slots[found[leased]], now)
                leased = np.zeros_like(leased)
            answers[found[leased]] = Answer.LEASED
            going = found[~leased]
            # Of a key twice, the first.
            going = going[np.unique(slots[going], return_index=True)[1]]
            answers[going] = Answer.REMOVED
            self._leave(slots[going], cause)
        return answers

    def evict(self, needed: int, now: int) -> Evicted:
        """At least this many bytes become free, or all that can."""
        self._intake.take()
        return self._space.evict(needed, now)

    def trim(self, now: int) -> Evicted:
        """Above a high watermark, of bytes or of entries, objects leave down to the low one: some
        thousand at a time, so that others get a turn. To be repeated until none leaves."""
        self._intake.take()
        return self._space.trim(now)

    def expire(self, now: int) -> Evicted:
        """Leases that have ended end; objects whose moment has come leave, unless leased."""
        self._intake.take()
        self._evictor.leases.expire(now)
        self._lingering.expire(now)
        freed = Evicted(0, self._departures.settle(), 0)
        due = self._expiry.due(now)
        if not len(due):
            return freed
        with self._evictor.leases.sweep():
            due = due[~self._evictor.leases.held(due, now)]
            self._expiry.forget(due)
            there = due[self._index.read(due)["generation"] != 0]
            return freed + self._leave(there, Cause.EXPIRED)

    def shut(self) -> None:
        """Take nothing in any more, but what was reserved before."""
        self._draining = True

    def drain(self, now: int) -> Evicted:
        """Take nothing in any more; all that is not leased leaves. To be repeated until empty."""
        self._intake.take()
        self.shut()
        self._lingering.expire(now)
        slots = self._policy.members()
        with self._evictor.leases.sweep():
            left = self._leave(slots[~self._evictor.leases.held(slots, now)], Cause.DRAINED)
        return left + Evicted(0, self._departures.settle(), 0)

    # Looking

    def take_in(self) -> None:
        """Learn of what was committed meanwhile, and let the witnesses know."""
        self._intake.take()

    def note(self, digests: Digests, cause: Cause) -> None:
        """Keys are not here for a cause that the caller knows."""
        self._intake.take()
        self._departures.remember(digests, cause)

    def usage(self) -> Usage:
        self._intake.take()
        return Usage(
            capacity=self._extents.capacity,
            free=self._extents.free,
            objects=self._policy.bytes,
            reserved=self._ledger.reserved,
            quarantined=self._ledger.quarantined,
            deferred=self._departures.bytes,
            count=self._index.count,
        )

    def turnover(self) -> dict[str, dict[str, int]]:
        """What came and what left, by cause."""
        self._intake.take()
        return self._departures.turnover.figures()

    def check_integrity(self) -> list[str]:
        """What is wrong, a sentence each; takes as long as the catalog is large."""
        self._intake.take()
        parts = self._index, self._extents, self._policy, self._ledger
        return complaints(*parts, self._departures, self._evictor)

    # Steps

    def _insist(self, user: int, commits: Commits, now: int) -> Answers:
        """Commit what was INDEX_FULL, or more than could be told at once."""
        answers = np.full(len(commits.attempts), Answer.INDEX_FULL, np.uint8)
        left = np.arange(len(answers))
        while len(left):
            self._space.expect_entries(len(left), now)
            answers[left] = self._ledger.commit(user, *commits.some(left))
            left = np.flatnonzero(answers == Answer.INDEX_FULL)
            if not self._intake.take():
                break
        for at in left.tolist():  # few: each has other rivals, of whom one has to leave
            one = commits.some(np.array([at]))
            if self._space.make_entry(one.digests, now):
                answers[at] = self._ledger.commit(user, *one)[0]
                self._intake.take()
        self._intake.refuse(commits.digests[answers == Answer.INDEX_FULL])
        return answers

    def _linger(self, slots: Ints, now: int) -> None:
        slots = np.unique(slots)
        generations = np.ascontiguousarray(self._index.read(slots)["generation"])
        ends = self._evictor.leases.ends(slots)
        self._lingering.add(generations, np.minimum(ends, now + self.limits.longest_lease))

    def _leave(self, slots: Ints, cause: Cause) -> Evicted:
        if not len(slots):
            return Evicted()
        return self._evictor.leave(self._index.read(slots), cause)


def _words(column: NDArray[np.integer[Any]]) -> Words:
    return column.astype(np.uint64, copy=False)


def _found(slots: Ints) -> Answers:
    return np.where(slots >= 0, Answer.FOUND, Answer.ABSENT).astype(np.uint8)
