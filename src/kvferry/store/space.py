"""Room for what is to come: in the pool, and in the index."""

from __future__ import annotations

import math

import numpy as np

from .answers import Answer, Digests
from .departures import Departures
from .evictor import Evictor
from .extents import NOWHERE, Extents
from .policies import Policy
from .records import Evicted, Limits
from .table import IndexLike, Ints

__all__ = ["Space"]

TRIM_AT_ONCE = 1024  # objects: a few milliseconds, in which nobody else is served


class Space:
    """Finds free extents and free entries, and sees off as many objects as it must for them."""

    def __init__(
        self,
        index: IndexLike,
        extents: Extents,
        policy: Policy,
        departures: Departures,
        evictor: Evictor,
        limits: Limits,
    ) -> None:
        self._index = index
        self._extents = extents
        self._policy = policy
        self._departures = departures
        self._evictor = evictor
        self._limits = limits
        self._trimming = False  # above a low watermark, after a high one was passed

    # Bytes

    def place(self, rooms: Ints, now: int) -> Ints:
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

    def why_not(self, room: int, now: int) -> Answer:
        """What keeps the bytes that a room would need."""
        free = self._extents.free
        if free >= room:
            return Answer.FRAGMENTED
        slots = self._policy.members()
        leased = self._evictor.leases.held(slots, now)
        if free + int(self._policy.sizes[slots[leased]].sum()) >= room:
            return Answer.LEASED
        return Answer.PINNED if free + self._policy.bytes >= room else Answer.FULL

    def evict(self, needed: int, now: int) -> Evicted:
        """At least this many bytes become free, or all that can."""
        freed = self._departures.settle()
        return Evicted(0, freed, 0) + self._evictor.evict(needed - freed, now)

    def trim(self, now: int) -> Evicted:
        """Down to the low watermarks, since a high one was passed; some at a time."""
        freed = Evicted(0, self._departures.settle(), 0)
        self._trimming = self._trimming or self._above(self._limits.high, 1)
        excess = self._excess() if self._trimming else 0
        gone = self._evictor.evict(min(excess, int(TRIM_AT_ONCE * self._mean())), now)
        self._trimming = gone.objects > 0
        return freed + gone

    # Entries

    def expect_entries(self, more: int, now: int) -> None:
        """Objects leave if the index would have too many with so many more."""
        excess = self._excess_entries(more)
        if excess:
            self._evictor.evict(excess, now)

    def make_entry(self, digest: Digests, now: int) -> bool:
        """Somebody leaves who stands where this one would have to, or else anybody."""
        rivals = self._index.rivals(digest)[0]
        if self._evictor.displace(rivals, now).objects:
            return True
        return self._evictor.evict(1, now).objects > 0

    # Steps

    def _clear(self, missing: Ints, rooms: Ints, offsets: Ints, now: int) -> None:
        """Bytes enough are free, but scattered: what is between them leaves, for one room after
        the other. What finds no place leaves none to a larger one."""
        for at in missing[np.argsort(rooms[missing])].tolist():
            self._evictor.clear(self._extents.holes(), int(rooms[at]), now)
            offsets[at] = self._extents.take(rooms[at : at + 1])[0]
            if offsets[at] == NOWHERE:
                return

    def _above(self, high: float, more: int) -> bool:
        used, capacity = self._extents.capacity - self._extents.free, self._extents.capacity
        return used > high * capacity or self._excess_entries(more) > 0

    def _excess(self) -> int:
        """Bytes above the low watermark; or of as many objects as entries are above theirs."""
        used, capacity = self._extents.capacity - self._extents.free, self._extents.capacity
        entries = self._index.count - self._limits.entries_low * self._index.capacity
        return max(
            math.ceil(used - self._limits.low * capacity), math.ceil(entries * self._mean()), 0
        )

    def _excess_entries(self, more: int) -> int:
        """Bytes of as many mean objects as the index would have too many with `more` of them."""
        count, capacity = self._index.count + more, self._index.capacity
        if count <= self._limits.entries(capacity):
            return 0
        return int((count - self._limits.entries_low * capacity) * self._mean())

    def _mean(self) -> float:
        """Bytes of an object."""
        return self._policy.bytes / max(self._policy.count, 1)
