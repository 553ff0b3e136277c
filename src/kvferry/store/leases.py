"""Promises that objects stay until a moment, or until they are given back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from .table import Ints, SharedLike, Words

__all__ = ["UNSHARED", "Leases"]


class Unshared:
    """No leases but those that were asked for: of a catalog whose memory nobody maps."""

    def begin(self) -> None:
        return

    def end(self) -> None:
        return

    def held(self, slots: Ints, now: int, longest: int) -> NDArray[np.bool_]:
        return np.zeros(len(slots), np.bool_)

    def clear(self, slots: Ints) -> None:
        return


UNSHARED = Unshared()


@dataclass(frozen=True)
class _Lease:
    user: int
    slots: Ints
    generations: Words
    until: int


class Leases:
    """Leases of many objects each, by ticket; times in nanoseconds, of whatever clock `now` is.

    An object stays until the last of its leases ends. When one is given back before others end, it
    stays until the latest moment that any of them named: longer than need be, never shorter.

    Users take leases in shared memory, too, which belong to nobody and end when they end. Whoever
    has objects leave asks who is held, chooses, and marks them, all of it in one `sweep`.

    shared   leases in shared memory, none longer than `longest`
    """

    def __init__(self, slots: int, shared: SharedLike = UNSHARED, longest: int = 0) -> None:
        self._shared = shared
        self._longest = longest
        self._until = np.zeros(slots, np.int64)
        self._count = np.zeros(slots, np.uint32)
        self._generation = np.zeros(slots, np.uint64)  # of the object that is leased
        self._leases: dict[int, _Lease] = {}
        self._tickets = count(1)

    def __len__(self) -> int:
        return len(self._leases)

    def grant(self, user: int, slots: Ints, generations: Words, until: int) -> int:
        """A ticket; each slot counts once."""
        ticket = next(self._tickets)
        self._leases[ticket] = _Lease(user, slots, generations, until)
        self._generation[slots] = generations
        self._count[slots] += 1
        self._until[slots] = np.maximum(self._until[slots], until)
        return ticket

    def renew(self, user: int, ticket: int, until: int, now: int) -> bool:
        """False: it has ended. A lease is never shortened."""
        lease = self._leases.get(ticket)
        if lease is None or lease.user != user or lease.until <= now:
            return False
        self._leases[ticket] = replace(lease, until=max(until, lease.until))
        own = lease.slots[self._generation[lease.slots] == lease.generations]
        self._until[own] = np.maximum(self._until[own], until)
        return True

    def release(self, user: int, ticket: int) -> bool:
        """Give it back; False: it had ended. Harmless when repeated."""
        lease = self._leases.get(ticket)
        if lease is None or lease.user != user:
            return False
        self._end(ticket)
        return True

    def release_all(self, user: int) -> int:
        """All of one user; how many there were."""
        return self._end_all([t for t, lease in self._leases.items() if lease.user == user])

    def expire(self, now: int) -> int:
        """Forget those that have ended; how many there were."""
        return self._end_all([t for t, lease in self._leases.items() if lease.until <= now])

    @contextmanager
    def sweep(self) -> Iterator[None]:
        """Meanwhile users take no leases in shared memory. Not to be nested."""
        self._shared.begin()
        try:
            yield
        finally:
            self._shared.end()

    def held(self, slots: Ints, now: int) -> NDArray[np.bool_]:
        held = self._shared.held(slots, now, self._longest)
        if self._leases:
            held |= self._until[slots] > now
        return held

    def ends(self, slots: Ints) -> Ints:
        """When the last lease on each does."""
        return self._until[slots].astype(np.int64)

    def vacate(self, slots: Ints) -> None:
        """What stood there leaves; leases that name it hold nothing any more."""
        self._shared.clear(slots)
        slots = slots[self._count[slots] > 0]  # memory of what was never leased stays untouched
        self._until[slots] = 0
        self._count[slots] = 0
        self._generation[slots] = 0

    def counts(self, slots: Ints) -> NDArray[np.uint32]:
        return self._count[slots]

    def complaints(self) -> list[str]:
        """What of the counts disagrees with the leases there are."""
        counted = np.zeros(len(self._count), np.uint32)
        for lease in self._leases.values():
            counted[lease.slots[self._generation[lease.slots] == lease.generations]] += 1
        wrong = np.flatnonzero(counted != self._count)
        idle = np.flatnonzero((counted == 0) & (self._until > 0))
        return [f"slot {slot}: wrong count of leases" for slot in wrong.tolist()] + [
            f"slot {slot}: held by no lease" for slot in idle.tolist()
        ]

    def _end_all(self, tickets: list[int]) -> int:
        for ticket in tickets:
            self._end(ticket)
        return len(tickets)

    def _end(self, ticket: int) -> None:
        lease = self._leases.pop(ticket)
        own = lease.slots[self._generation[lease.slots] == lease.generations]
        self._count[own] -= 1
        self._until[own[self._count[own] == 0]] = 0
