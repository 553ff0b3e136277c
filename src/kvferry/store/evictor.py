"""Who leaves when room is wanted, and who stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .answers import Cause, Pin
from .departures import Departures
from .groups import Groups
from .leases import UNSHARED, Leases
from .placement import window
from .policies import Held, Policy
from .records import Evicted
from .table import Entries, IndexLike, Ints, SharedLike

__all__ = ["Dear", "Evictor"]

# Which of the objects at these slots are lost when they leave, since they lie nowhere else.
Dear: TypeAlias = Callable[[Ints], NDArray[np.bool_]]

NOTHING = Evicted()
SPARED = 4096  # objects that are passed by for being dear, at most, when somebody has to leave
PRESSURE = (int(Pin.SOFT), int(Pin.HARD))  # from which pin on objects stay, at first and at last


class Evictor:
    """Asks the policy for victims that no lease, pin or group keeps, and sees them off. What is
    dear is passed by at first, within bounds."""

    def __init__(
        self,
        index: IndexLike,
        policy: Policy,
        departures: Departures,
        dear: Dear | None = None,
        shared: SharedLike = UNSHARED,
        longest_lease: int = 0,
    ) -> None:
        self._index = index
        self._policy = policy
        self._departures = departures
        self._dear = dear
        self.leases = Leases(policy.slots, shared, longest_lease)
        self.groups = Groups(policy.slots)
        self._pins = np.zeros(policy.slots, np.uint8)

    def pin(self, slots: Ints, pin: Pin) -> None:
        self._pins[slots] = pin

    def pinned(self, slots: Ints) -> NDArray[np.uint8]:
        return self._pins[slots]

    def evict(self, needed: int, now: int) -> Evicted:
        """Objects of at least `needed` bytes leave, or all that may; soft pins fall if they must.

        Bytes that wait for a reader do not count: others leave in their place.
        """
        gone = NOTHING
        for stays in self._pressures(now):
            while gone.bytes < needed:
                more = self._round(needed - gone.bytes, stays)
                if not more.objects:
                    break
                gone += more
        return gone

    def displace(self, slots: Ints, now: int) -> Evicted:
        """The first of these slots to leave does, with its group; nothing: none of them may."""
        with self.leases.sweep():
            for firm in PRESSURE:
                free = slots[~self._stays(slots, now, firm)]
                first = self._policy.first(free)
                if len(first):
                    self._policy.remove(first)
                    return self._see_off(first)
        return NOTHING

    def clear(self, holes: tuple[Ints, Ints], room: int, now: int) -> Evicted:
        """Neighbours that may leave do, of the fewest bytes that with the holes span `room`."""
        with self.leases.sweep():
            return self._clear(holes, room, now)

    def leave(self, entries: Entries, cause: Cause) -> Evicted:
        """These objects leave, whoever wanted them; in a sweep, unless leases do not count."""
        slots = entries["slot"].astype(np.int64)
        self._policy.remove(slots)
        self.groups.leave(slots)
        return self._forget(entries, slots, cause)

    def complaints(self, slots: Ints) -> list[str]:
        """What is wrong, when objects stand at these slots and at no others."""
        empty = np.setdiff1d(np.arange(self._policy.slots), slots)
        said = self.leases.complaints()
        if len(self.groups.grouped(empty)) or len(np.setdiff1d(self.groups.members(slots), slots)):
            said.append("a group has a member that left")
        if self._pins[empty].any() or self.leases.counts(empty).any():
            said.append("what has left is leased or pinned")
        return said

    def _round(self, needed: int, stays: Held) -> Evicted:
        with self.leases.sweep():
            victims = self._policy.victims(needed, stays)
            return self._see_off(victims) if len(victims) else NOTHING

    def _clear(self, holes: tuple[Ints, Ints], room: int, now: int) -> Evicted:
        entries = self._index.scan(0, self._index.capacity)
        slots = entries["slot"].astype(np.int64)
        movable = ~self._stays(slots, now, max(PRESSURE)) & ~self._policy.blocked(slots)
        slots, entries = slots[movable], entries[movable]
        rooms = entries["room"].astype(np.int64)
        starts = np.concatenate((entries["offset"].astype(np.int64), holes[0]))
        ends = starts + np.concatenate((rooms, holes[1]))
        costs = np.concatenate((rooms, np.zeros_like(holes[1])))
        order = np.argsort(starts)
        chosen = order[window(starts[order], ends[order], costs[order], room)]
        victims = slots[chosen[chosen < len(slots)]]
        if not len(victims):
            return NOTHING
        self._policy.remove(victims)
        return self._see_off(victims)

    def _pressures(self, now: int) -> Iterator[Held]:
        """Who stays at first, and who at last."""
        if self._dear is not None:
            yield self._sparing(now, self._dear)
        for firm in PRESSURE:
            yield partial(self._stays, now=now, firm=firm)

    def _sparing(self, now: int, dear: Dear) -> Held:
        left = SPARED

        def stays(slots: Ints) -> NDArray[np.bool_]:
            nonlocal left
            held = self._stays(slots, now, PRESSURE[0])
            held[:left] |= dear(slots[:left])
            left = max(left - len(slots), 0)
            return held

        return stays

    def _see_off(self, victims: Ints) -> Evicted:
        """Victims, which have left the policy, leave with the rest of their groups."""
        grouped = self.groups.grouped(victims)
        if len(grouped):
            others = np.setdiff1d(self.groups.members(grouped), victims)
            self._policy.remove(others)
            victims = np.concatenate((victims, others))
            self.groups.dissolve(victims)
        return self._forget(self._index.read(victims), victims, Cause.EVICTED)

    def _forget(self, entries: Entries, slots: Ints, cause: Cause) -> Evicted:
        self.leases.vacate(slots)
        self._unpin(slots)
        freed = self._departures.leave(entries, cause)
        return Evicted(len(slots), freed, int(entries["room"].sum()) - freed)

    def _unpin(self, slots: Ints) -> None:
        pinned = slots[self._pins[slots].nonzero()]  # memory of others stays untouched
        self._pins[pinned] = 0

    def _stays(self, slots: Ints, now: int, firm: int) -> NDArray[np.bool_]:
        """Which of these may not leave: held themselves, or by a member of their group."""
        stays = self._held(slots, now, firm)
        numbers = self.groups.of(slots)
        grouped = np.flatnonzero(numbers)
        if len(grouped):
            stays[grouped] = self._groups_stay(slots[grouped], numbers[grouped], now, firm)
        return stays

    def _groups_stay(self, slots: Ints, numbers: Ints, now: int, firm: int) -> NDArray[np.bool_]:
        """Whether the group of each of these slots does, by the groups' numbers."""
        members = self.groups.members(slots)
        known, which = np.unique(self.groups.of(members), return_inverse=True)
        held = np.bincount(which, self._held(members, now, firm)) > 0
        # Children in the group leave with their parents; all others would have to leave before.
        parents, children = self._policy.kin(members)
        inside = (parents != members) & (self.groups.of(parents) == known[which])
        held |= np.bincount(which, children) > np.bincount(which, inside)
        verdicts: NDArray[np.bool_] = held[np.searchsorted(known, numbers)]
        return verdicts

    def _held(self, slots: Ints, now: int, firm: int) -> NDArray[np.bool_]:
        return self.leases.held(slots, now) | (self._pins[slots] >= firm)
