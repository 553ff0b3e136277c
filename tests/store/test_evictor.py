"""Who leaves and who stays, and how they leave: an evictor over an index and a pool, no catalog."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry.store.answers import Cause, Pin
from kvferry.store.departures import Departures
from kvferry.store.dict_index import DictIndex
from kvferry.store.evictor import Evictor
from kvferry.store.extents import UNIT, Extents
from kvferry.store.ghosts import Ghosts
from kvferry.store.policies import Lru, Policy, PrefixLru, S3Fifo
from kvferry.store.records import Evicted

POLICIES = [Lru, S3Fifo, PrefixLru]
PLACES = 16


def ints(numbers: Any) -> NDArray[np.int64]:
    return np.array(list(numbers), np.int64)


class Full:
    """A pool of objects 0 .. 15, one unit each, stored in order, so that they lie as they came."""

    def __init__(self, policy: type[Policy] = Lru, parents: dict[int, int] | None = None) -> None:
        self.index, self.extents = DictIndex(64), Extents(PLACES * UNIT)
        self.policy, self.ghosts = policy(self.index.capacity), Ghosts(64)
        self.readers: set[int] = set()
        self.departures = Departures(self.index, self.extents, self._hazards, self.ghosts)
        self.evictor = Evictor(self.index, self.policy, self.departures)
        self.digests = np.random.default_rng(1).integers(1, 1 << 63, (PLACES, 2)).astype(np.uint64)
        # Generations fall, so that the order of leaving is not theirs.
        self.generations = np.arange(PLACES, 0, -1).astype(np.uint64)
        units = np.full(PLACES, UNIT, np.uint64)
        offsets = np.arange(PLACES, dtype=np.uint64) * np.uint64(UNIT)
        self.extents.take(units.astype(np.int64))
        self.slots = self.index.insert(
            self.digests, self.generations, offsets, units, units, np.zeros(PLACES, np.uint64)
        )
        above = ints((parents or {}).get(number, number) for number in range(PLACES))
        self.policy.insert(
            self.slots, units.astype(np.int64), self.digests[:, 1].copy(), self.slots[above]
        )

    def at(self, *numbers: int) -> NDArray[np.int64]:
        return self.slots[list(numbers)]

    def read(self, *numbers: int) -> None:
        """From now on readers hold these."""
        self.readers = {int(self.generations[number]) for number in numbers}

    def lease(self, *numbers: int, until: int = 10) -> int:
        where = list(numbers)
        return self.evictor.leases.grant(1, self.slots[where], self.generations[where], until)

    def group(self, *numbers: int) -> None:
        self.evictor.groups.join(np.sort(self.at(*numbers)))

    def evict(self, count: int, now: int = 0) -> Evicted:
        return self.evictor.evict(count * UNIT, now)

    @property
    def left(self) -> list[int]:
        return np.flatnonzero(self.index.find(self.digests) < 0).tolist()

    def check(self) -> None:
        there = self.slots[self.index.find(self.digests) >= 0]
        assert self.evictor.complaints(there) == []
        assert sorted(self.policy.members().tolist()) == sorted(there.tolist())
        free = self.extents.free + self.departures.bytes
        assert free == (PLACES - len(there)) * UNIT

    def _hazards(self, generations: NDArray[np.uint64]) -> NDArray[np.bool_]:
        assert (generations[1:] > generations[:-1]).all()
        numbers = PLACES - generations.astype(np.int64)
        assert (self.index.find(self.digests[numbers]) < 0).all(), "looked before it was marked"
        return np.isin(generations, np.array(sorted(self.readers), np.uint64))


@pytest.mark.parametrize("policy", POLICIES)
def test_others_leave_in_the_place_of_those_that_are_read(policy: type[Policy]) -> None:
    full = Full(policy)
    full.read(0, 1, 2, 3)
    assert full.evict(2) == Evicted(6, 2 * UNIT, 4 * UNIT)
    assert full.left == [0, 1, 2, 3, 4, 5]
    full.check()
    full.read(1, 3)
    assert full.departures.settle() == 2 * UNIT
    assert sorted(full.departures.offsets.tolist()) == [UNIT, 3 * UNIT]
    full.read(3)
    assert full.departures.settle() == UNIT
    assert full.departures.offsets.tolist() == [3 * UNIT]
    full.read()
    assert (full.departures.settle(), full.departures.settle()) == (UNIT, 0)
    full.check()
    assert full.extents.largest == 6 * UNIT


def test_of_those_that_wait_each_keeps_its_own_extent() -> None:
    full = Full()
    full.read(0, 5, 9)
    for numbers in ([5, 6], [0, 1], [9]):
        full.evictor.leave(full.index.read(full.at(*numbers)), Cause.REMOVED)
    for number in (5, 0):
        full.readers.discard(int(full.generations[number]))
        assert full.departures.settle() == UNIT
        assert full.extents.take(ints([UNIT] * 3)).max() >= 0
    assert full.departures.offsets.tolist() == [9 * UNIT]


def test_who_left_is_remembered_with_the_cause() -> None:
    full = Full()
    full.evict(2)
    full.evictor.leave(full.index.read(full.at(7)), Cause.REMOVED)
    words = full.ghosts.recall(full.digests[:, 1].copy())
    assert words.tolist() == [Cause.EVICTED] * 2 + [0] * 5 + [Cause.REMOVED] + [0] * 8


@pytest.mark.parametrize("policy", POLICIES)
def test_leases_end_and_pins_give_way(policy: type[Policy]) -> None:
    full = Full(policy)
    full.lease(0)
    full.evictor.pin(full.at(1), Pin.HARD)
    full.evictor.pin(full.at(2), Pin.SOFT)
    assert full.evict(2).objects == 2
    assert full.left == [3, 4]
    assert full.evict(12).objects == 12
    assert full.left == [2, *range(3, 16)]
    assert full.evict(1, now=9) == Evicted()
    assert full.evict(2, now=10) == Evicted(1, UNIT, 0)
    full.evictor.leases.expire(10)
    full.check()


@pytest.mark.parametrize("policy", POLICIES)
def test_what_comes_to_a_slot_inherits_nothing(policy: type[Policy]) -> None:
    full = Full(policy)
    ticket = full.lease(0, 1, until=1 << 40)
    full.evictor.pin(full.at(0, 2), Pin.HARD)
    full.group(0, 3, 4)
    full.evictor.leave(full.index.read(full.at(0, 2)), Cause.REMOVED)
    full.check()
    assert not full.evictor.pinned(full.at(0, 2)).any()
    assert not full.evictor.leases.held(full.at(0), 0).any()
    assert full.evictor.groups.members(full.at(3)).tolist() == sorted(full.at(3, 4).tolist())
    assert full.evictor.leases.release(1, ticket)
    full.check()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_group_stays_when_one_of_it_has_to(policy: type[Policy]) -> None:
    full = Full(policy)
    full.group(0, 1, 7, 8)
    full.group(2, 9)
    full.group(3, 10, 11)
    full.lease(8)
    full.evictor.pin(full.at(11), Pin.HARD)
    assert full.evict(1).objects == 2
    assert full.left == [2, 9]
    full.check()
    assert full.evict(PLACES).objects == 7
    assert full.left == [2, 4, 5, 6, 9, 12, 13, 14, 15]
    full.check()
    assert full.evict(1, now=10).objects == 4
    assert full.left == [0, 1, 2, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15]
    full.check()
    assert not len(full.evictor.groups.grouped(full.at(0, 1, 2, 7, 8, 9)))


def test_a_group_stays_while_others_need_one_of_it() -> None:
    full = Full(PrefixLru, parents={15: 1})
    full.group(0, 1)
    full.lease(15)
    assert full.evict(PLACES).objects == 13
    assert full.left == list(range(2, 15))
    full.check()


def test_a_group_of_parents_and_children_leaves_like_any_other() -> None:
    full = Full(PrefixLru, parents={1: 0, 2: 1, 15: 2})
    full.group(0, 1, 2)
    full.group(3, 4)
    full.lease(15)
    assert full.evict(PLACES).objects == 12
    assert full.left == list(range(3, 15))
    full.check()
    assert full.evict(1, now=10).objects == 1
    assert full.left == list(range(3, 16))
    assert full.evict(1, now=10).objects == 3
    full.check()


@pytest.mark.parametrize("policy", POLICIES)
def test_of_rivals_the_first_that_may_leaves_with_its_group(policy: type[Policy]) -> None:
    full = Full(policy)
    full.lease(3)
    full.evictor.pin(full.at(4), Pin.SOFT)
    full.group(5, 0)
    assert full.evictor.displace(full.at(6, 5, 4, 3), 0) == Evicted(2, 2 * UNIT, 0)
    assert full.left == [0, 5]
    full.check()
    assert full.evictor.displace(full.at(4, 3), 0).objects == 1
    assert full.left == [0, 4, 5]
    assert full.evictor.displace(full.at(3), 0) == Evicted()
    full.check()


def test_room_is_cleared_beside_what_has_to_stay() -> None:
    full = Full(PrefixLru, parents={15: 5})
    full.lease(2)
    full.evictor.pin(full.at(8), Pin.HARD)
    full.evictor.pin(full.at(10), Pin.SOFT)
    full.evictor.leave(full.index.read(full.at(11)), Cause.REMOVED)
    assert full.evictor.clear(full.extents.holes(), 3 * UNIT, 0).objects == 2
    assert 11 in full.left
    assert not {2, 5, 8} & set(full.left)
    assert full.extents.largest == 3 * UNIT
    assert full.evictor.clear(full.extents.holes(), 7 * UNIT, 0).objects == 4
    assert full.left == [9, 10, 11, 12, 13, 14, 15]
    assert full.evictor.clear(full.extents.holes(), 8 * UNIT, 0) == Evicted()
    full.check()


def test_room_is_not_cleared_of_what_others_need() -> None:
    full = Full(PrefixLru, parents={15: 5})
    full.evictor.pin(full.at(0, 1, 2, *range(8, 16)), Pin.HARD)
    assert full.evictor.clear(full.extents.holes(), 3 * UNIT, 0) == Evicted()
    assert full.evictor.clear(full.extents.holes(), 2 * UNIT, 0).objects == 2


def test_nothing_is_asked_for_and_nothing_leaves() -> None:
    full = Full()
    assert full.evict(0) == full.evict(-5) == Evicted()
    assert full.left == []
