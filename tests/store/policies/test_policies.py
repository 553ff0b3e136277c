"""Every policy leaves in the order of its naive twin, whatever happens to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvferry.store.policies import Lru, Policy, PrefixLru, S3Fifo, Slots
from tests.store.policies.naive import NaiveLru, NaivePrefix, NaiveS3Fifo

SLOTS = 24
PAIRS = [(Lru, NaiveLru), (S3Fifo, NaiveS3Fifo), (PrefixLru, NaivePrefix)]

slot = st.integers(0, SLOTS - 1)
step = st.one_of(
    st.tuples(st.just("insert"), st.lists(st.tuples(slot, st.integers(1, 9), slot, slot))),
    st.tuples(st.just("touch"), st.lists(slot)),
    st.tuples(st.just("remove"), st.lists(slot, unique=True)),
    st.tuples(st.just("victims"), st.integers(0, 60), st.sets(slot, max_size=6)),
)


def slots(numbers: Any) -> Slots:
    return np.array(list(numbers), np.int64)


def nobody(asked: Slots) -> NDArray[np.bool_]:
    return np.zeros(len(asked), np.bool_)


def spread(number: int) -> int:
    """A fingerprint, whose halves both tell it apart."""
    return (number + 1) * 0x9E3779B97F4A7C15 % (1 << 64)


class Both:
    """A policy and its naive twin, told the same."""

    def __init__(self, policy: type[Policy], naive: Any) -> None:
        self.policy, self.naive = policy(SLOTS), naive()
        self.present: dict[int, int] = {}

    def insert(self, rows: list[tuple[int, int, int, int]]) -> None:
        fresh = {row[0]: row for row in rows if row[0] not in self.present}
        rows = [
            (s, size, spread(p), above if above in self.present else s)
            for s, size, p, above in fresh.values()
        ]
        if rows:
            numbers, sizes, prints, parents = zip(*rows, strict=True)
            self.policy.insert(
                slots(numbers), slots(sizes), np.array(prints, np.uint64), slots(parents)
            )
        for row in rows:
            self.naive.insert(*row)
            self.present[row[0]] = row[1]

    def touch(self, numbers: list[int]) -> None:
        self.policy.touch(slots(numbers))
        for number in numbers:
            self.naive.touch(number)

    def remove(self, numbers: list[int]) -> None:
        numbers = [number for number in numbers if number in self.present]
        self.policy.remove(slots(numbers))
        for number in numbers:
            self.naive.remove(number)
            del self.present[number]

    def victims(self, needed: int, held: set[int]) -> None:
        found = self.policy.victims(needed, lambda asked: np.isin(asked, list(held)))
        assert found.tolist() == self.naive.victims(needed, held.__contains__)
        assert not held & set(found.tolist())
        for number in found.tolist():
            del self.present[number]

    def check(self) -> None:
        assert sorted(self.policy.members().tolist()) == sorted(self.present)
        assert self.policy.count == len(self.present)
        assert self.policy.bytes == sum(self.present.values())


@pytest.mark.parametrize(("policy", "naive"), PAIRS)
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(step, max_size=40))
def test_leaves_in_the_order_of_its_naive_twin(
    policy: type[Policy], naive: Any, steps: list[Any]
) -> None:
    both = Both(policy, naive)
    for name, *arguments in steps:
        getattr(both, name)(*arguments)
        both.check()


@pytest.mark.parametrize("policy", [Lru, S3Fifo, PrefixLru])
def test_the_first_of_some_is_the_one_that_leaves_first(policy: type[Policy]) -> None:
    one = policy(SLOTS)
    one.insert(slots(range(6)), np.ones(6, np.int64), np.arange(6, dtype=np.uint64))
    one.touch(slots([0, 2]))
    assert one.first(slots([5, 0, 3])).tolist() == ([0] if policy is S3Fifo else [3])
    assert one.first(slots([9, 10])).tolist() == []
    assert one.first(slots([])).tolist() == []


def test_a_parent_never_leaves_before_its_children() -> None:
    rng = np.random.default_rng(3)
    policy, parents = PrefixLru(512), np.arange(512)
    parents[1:] = [int(rng.integers(0, child + 1)) for child in range(1, 512)]
    policy.insert(slots(range(512)), np.ones(512, np.int64), np.zeros(512, np.uint64), parents)
    policy.touch(rng.integers(0, 512, 2000))
    left: list[int] = []
    while len(found := policy.victims(int(rng.integers(1, 40)), nobody)):
        left += found.tolist()
    when = np.argsort(left)
    children = np.flatnonzero(parents != np.arange(512))
    assert sorted(left) == list(range(512))
    assert (when[children] < when[parents[children]]).all()


def test_a_held_leaf_keeps_its_ancestors() -> None:
    policy = PrefixLru(8)
    policy.insert(slots([0, 1, 2]), np.ones(3, np.int64), np.zeros(3, np.uint64), slots([0, 0, 1]))
    assert policy.victims(9, lambda asked: asked == 2).tolist() == []
    assert policy.victims(2, nobody).tolist() == [2, 1]
    assert policy.victims(9, lambda asked: asked == 0).tolist() == []
    assert policy.victims(9, nobody).tolist() == [0]


def test_what_comes_back_soon_joins_the_main_queue() -> None:
    policy = S3Fifo(64)
    fives = np.arange(1, 41, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    policy.insert(slots(range(40)), np.ones(40, np.int64), fives)
    policy.touch(slots(list(range(20)) * 2))
    policy.victims(10, nobody)  # the small queue: 20 go on to the main one, ten of the rest leave
    back = slots([50])
    policy.insert(back, np.ones(1, np.int64), fives[20:21])
    assert policy.victims(100, nobody).tolist()[-1] == 50


def test_uses_are_counted_however_many_there_are() -> None:
    policy = S3Fifo(8)
    policy.insert(slots([0, 1]), np.ones(2, np.int64), np.arange(2, dtype=np.uint64))
    policy.touch(slots([0] * 256))
    assert policy.victims(1, nobody).tolist() == [1]


@pytest.mark.parametrize("policy", [Lru, S3Fifo, PrefixLru])
def test_the_held_stay_behind_however_many_they_are(policy: type[Policy]) -> None:
    one, count = policy(5000), 5000
    one.insert(slots(range(count)), np.ones(count, np.int64), np.arange(count, dtype=np.uint64))
    assert one.victims(2, lambda asked: asked < count - 1).tolist() == [count - 1]
    assert one.victims(3, nobody).tolist() == [0, 1, 2]
    assert (one.count, one.bytes) == (count - 4, count - 4)
