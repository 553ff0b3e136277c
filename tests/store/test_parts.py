"""The parts of a catalog by themselves: ghosts, leases, groups, windows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry.store.ghosts import Ghosts
from kvferry.store.groups import Groups
from kvferry.store.leases import Leases
from kvferry.store.placement import window

SPREAD = 0x9E3779B97F4A7C15


def words(numbers: Any) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array([n * SPREAD % (1 << 64) for n in numbers], np.uint64)


def ints(numbers: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(list(numbers), np.int64)


@settings(max_examples=50, deadline=None)
@given(told=st.lists(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), min_size=1)))
def test_ghosts_know_the_last_word_about_each(told: list[list[tuple[int, int]]]) -> None:
    ghosts, known = Ghosts(1024), dict.fromkeys(range(1, 31), 0)
    for batch in told:
        numbers, said = zip(*batch, strict=True)
        ghosts.tell(words(numbers), np.array(said, np.uint32))
        known.update(batch)
        assert ghosts.recall(words(known)).tolist() == list(known.values())


def test_ghosts_never_grow_and_forget_the_oldest_first() -> None:
    ghosts = Ghosts(1000)
    for start in range(0, 100_000, 500):
        numbers = range(start + 1, start + 501)
        ghosts.tell(words(numbers), np.full(500, 7, np.uint32))
    recalled = ghosts.recall(words(range(1, 100_001))) != 0
    assert recalled[-500:].mean() > 0.95
    assert recalled.sum() <= 1024
    assert not recalled[:50_000].any()


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_counts_of_leases_return_to_zero(data: st.DataObject) -> None:
    leases, now, tickets = Leases(8), 0, []
    generations = np.arange(1, 9, dtype=np.uint64)
    for _ in range(data.draw(st.integers(0, 20))):
        now += data.draw(st.integers(0, 4))
        what = data.draw(st.sampled_from(["grant", "release", "renew", "vacate", "expire"]))
        slots = ints(data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=4)))
        if what == "grant":
            tickets.append(leases.grant(1, slots, generations[slots], now + 5))
        elif what == "vacate":
            leases.vacate(slots)
            generations[slots] += np.uint64(100)
        elif what == "expire":
            leases.expire(now)
        elif tickets:
            ticket = data.draw(st.sampled_from(tickets))
            leases.renew(1, ticket, now + 9, now)
            if what == "release":
                leases.release(1, ticket)
        assert leases.complaints() == []
    leases.release_all(1)
    assert len(leases) == 0
    assert not leases.counts(np.arange(8)).any()
    assert not leases.held(np.arange(8), 0).any()


def test_a_lease_given_back_leaves_the_leases_of_others() -> None:
    leases = Leases(4)
    one, other = (leases.grant(user, ints([2]), words([1]), 100) for user in (1, 2))
    assert not leases.release(2, one)
    assert leases.release(1, one)
    assert not leases.release(1, one)
    assert leases.held(ints([2]), 99).all()
    assert leases.renew(2, other, 200, 50)
    assert not leases.renew(2, other, 300, 200)
    assert not leases.held(ints([2]), 200).any()


def test_no_lease_makes_another_shorter() -> None:
    leases, slots = Leases(4), ints([2])
    one = leases.grant(1, slots, words([1]), 100)
    other = leases.grant(2, ints([2, 2]), words([1, 1]), 50)
    assert leases.counts(slots).tolist() == [2]
    assert leases.held(slots, 99).all()
    assert not leases.renew(1, other, 500, 0)
    assert leases.renew(1, one, 20, 10)
    assert leases.held(slots, 99).all()
    assert leases.renew(1, one, 120, 99)
    assert leases.held(slots, 119).all()
    assert not leases.held(slots, 120).any()


def test_leases_of_what_has_left_say_nothing_about_what_came() -> None:
    leases, slots = Leases(4), ints([0, 2])
    old = leases.grant(1, slots, words([1, 2]), 100)
    leases.vacate(ints([2]))
    assert leases.renew(1, old, 200, 0)
    assert leases.held(slots, 199).tolist() == [True, False]
    new = leases.grant(2, ints([2]), words([3]), 50)
    assert leases.renew(1, old, 300, 0)
    assert leases.held(slots, 50).tolist() == [True, False]
    assert leases.release(1, old)
    assert leases.held(slots, 49).tolist() == [False, True]
    assert leases.release(2, new)
    assert leases.complaints() == []


def test_all_leases_of_one_user_end_and_those_of_others_stay() -> None:
    leases = Leases(4)
    for user, slot in ((1, 0), (1, 1), (2, 1), (2, 3)):
        leases.grant(user, ints([slot]), words([slot + 1]), 10 * user)
    assert leases.release_all(1) == 2
    assert leases.held(ints(range(4)), 0).tolist() == [False, True, False, True]
    assert (leases.expire(19), leases.expire(20), len(leases)) == (0, 2, 0)
    assert leases.complaints() == []


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 9), min_size=1, max_size=4))))
def test_groups_are_what_was_joined(steps: list[tuple[bool, set[int]]]) -> None:
    groups, model = Groups(10), [{slot} for slot in range(10)]
    for join, slots in steps:
        if join:
            groups.join(ints(sorted(slots)))
            joined = set().union(*(one for one in model if one & slots))
            model = [one for one in model if not one & slots] + [joined]
        else:
            groups.leave(ints(slots))
            model = [one - slots for one in model if one - slots] + [{slot} for slot in slots]
        for one in model:
            assert groups.members(ints([min(one)])).tolist() == sorted(one)


def test_a_large_group_costs_what_its_members_do() -> None:
    groups, slots, began = Groups(30_000), ints(range(30_000)), time.thread_time()
    groups.join(slots)
    groups.join(slots)
    for first in range(0, 3_000, 1_000):
        groups.leave(slots[first : first + 1_000])
    assert len(groups.members(slots[-1:])) == 27_000
    assert len(groups.grouped(slots)) == 27_000
    assert time.thread_time() - began < 1


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_window_is_the_cheapest_there_is(data: st.DataObject) -> None:
    ranges = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(0, 3))))
    starts, ends, at = [], [], 0
    for gap, size, _ in ranges:
        starts.append(at + gap)
        at += gap + size
        ends.append(at)
    costs, room = [cost for _, _, cost in ranges], data.draw(st.integers(1, 12))
    spans = [
        sum(costs[first : last + 1])
        for first in range(len(starts))
        for last in range(first, len(starts))
        if ends[last] - starts[first] >= room and starts[first + 1 : last + 1] == ends[first:last]
    ]
    found = window(ints(starts), ints(ends), ints(costs), room).tolist()
    assert bool(found) == bool(spans)
    if spans:
        assert sum(costs[at] for at in found) == min(spans)
        assert ends[found[-1]] - starts[found[0]] >= room
        assert [starts[at] for at in found[1:]] == [ends[at] for at in found[:-1]]
