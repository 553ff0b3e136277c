"""Slots: bounded, used again, thrown away after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvferry.errors import Full, NoMemory, Timeout
from kvferry.runtime import Stream
from kvferry.submit import Slot, SlotPool


class Counted:
    """Stands for a stream."""


class Streams:
    """Makes streams that are only counted."""

    def __init__(self) -> None:
        self.made: list[Stream] = []
        self.fail_at = -1

    def __call__(self) -> Stream:
        if len(self.made) == self.fail_at:
            raise NoMemory("no threads", cause="no_threads")
        stream: Stream = Counted()  # type: ignore[assignment]
        self.made.append(stream)
        return stream


@pytest.fixture
def streams() -> Streams:
    return Streams()


def test_made_when_needed_and_used_again(streams: Streams) -> None:
    pool = SlotPool(streams)
    assert streams.made == []
    first = pool.take(3)
    assert streams.made == first
    pool.give(first)
    second = pool.take(2)
    assert set(second) <= set(first)
    third = pool.take(4)
    assert len(streams.made) == 6
    assert not set(second) & set(third)


def test_bounded(streams: Streams) -> None:
    pool = SlotPool(streams, limit=5)
    slot = pool.take(3)
    with pytest.raises(Full, match="no slot of 3 streams: 3 of 5 are in use") as caught:
        pool.take(3)
    assert (caught.value.cause, caught.value.safe_to_retry) == ("no_slot", True)
    other = pool.take(2)
    with pytest.raises(Full):
        pool.take(1)
    pool.give(slot)
    assert set(pool.take(3)) == set(slot)
    pool.give(other)
    assert len(streams.made) == 5


def test_slots_of_unnoticed_ends_are_reclaimed_before_it_is_full(streams: Streams) -> None:
    forgotten: list[list[Stream]] = []
    asked = 0

    def reclaim() -> None:
        nonlocal asked
        asked += 1
        while forgotten:
            pool.give(forgotten.pop())

    pool = SlotPool(streams, reclaim, limit=4)
    forgotten.append(pool.take(2))
    pool.give(pool.take(2))
    assert asked == 0
    assert len(pool.take(4)) == 4
    assert asked == 1
    with pytest.raises(Full):
        pool.take(1)
    assert len(streams.made) == 4


def test_discarded_streams_are_replaced(streams: Streams) -> None:
    pool = SlotPool(streams, limit=3)
    slot = pool.take(3)
    pool.discard(slot)
    fresh = pool.take(3)
    assert not set(fresh) & set(slot)
    assert len(streams.made) == 6
    with pytest.raises(Full):
        pool.take(1)


def test_dropped_streams_make_room(streams: Streams) -> None:
    """A signal may come between having a slot and holding it."""
    pool = SlotPool(streams, limit=3)
    pool.take(3)
    streams.made.clear()
    assert len(pool.take(3)) == 3


def test_a_slot_of_none(streams: Streams) -> None:
    pool = SlotPool(streams, limit=2)
    pool.give(pool.take(2))
    assert pool.take(0) == []
    assert len(pool.take(2)) == 2


def test_streams_that_cannot_be_made_take_no_room(streams: Streams) -> None:
    pool = SlotPool(streams, limit=4)
    pool.give(pool.take(2))
    streams.fail_at = 3
    for _ in range(5):
        with pytest.raises(NoMemory):
            pool.take(4)
        streams.fail_at = len(streams.made)
    streams.fail_at = -1
    assert len(set(pool.take(4))) == 4


def test_no_stream_is_lent_twice(streams: Streams) -> None:
    pool = SlotPool(streams, limit=12)
    lent: set[Stream] = set()
    lock, wrong = threading.Lock(), list[Stream]()

    def work(size: int) -> None:
        for _ in range(300):
            try:
                slot = pool.take(size)
            except Full:
                continue
            with lock:
                wrong.extend(lent & set(slot))
                lent.update(slot)
            with lock:
                lent.difference_update(slot)
            pool.give(slot)

    crew = [threading.Thread(target=work, args=(1 + index % 4,)) for index in range(8)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert wrong == []
    assert len(streams.made) <= 12
    assert len(set(pool.take(12))) == 12


# ---- made before they are needed ----


def test_warm_makes_what_is_missing(streams: Streams) -> None:
    pool = SlotPool(streams, limit=6)
    pool.warm(4)
    assert len(streams.made) == 4
    slot = pool.take(3)
    pool.warm(4)
    assert len(streams.made) == 4
    pool.warm(100)
    assert len(streams.made) == 6
    assert len(set(slot + pool.take(3))) == 6
    assert len(streams.made) == 6


# ---- waiting ----


class Clock:
    """Passes when it is looked at."""

    def __init__(self, step: int) -> None:
        self.time, self.step = 0, step

    def __call__(self) -> int:
        self.time += self.step
        return self.time


def test_one_that_waits_gets_a_slot_that_is_free_at_once(streams: Streams) -> None:
    pool = SlotPool(streams, limit=2, now=Clock(1 << 40))
    assert len(pool.wait(2, 0) or []) == 2


def test_the_deadline_passes(streams: Streams) -> None:
    pool = SlotPool(streams, limit=2, now=Clock(400_000))
    slot = pool.take(1)
    with pytest.raises(Timeout, match="no slot of 2 streams") as caught:
        pool.wait(2, 1_000_000)
    assert (caught.value.cause, caught.value.bytes_moved) == ("no_slot", 0)
    pool.give(slot)
    assert len(pool.take(2)) == 2


def test_more_than_there_can_be_is_not_waited_for(streams: Streams) -> None:
    with pytest.raises(Full):
        SlotPool(streams, limit=2).wait(3, None)


def test_slots_of_unnoticed_ends_are_looked_for_while_waiting(streams: Streams) -> None:
    looks = 0

    def reclaim() -> None:
        nonlocal looks
        looks += 1
        if looks == 4:
            pool.give(slot)

    pool = SlotPool(streams, reclaim, limit=3)
    slot = pool.take(2)
    assert pool.wait(3, None) is not None
    assert looks == 4


def test_what_is_not_wanted_any_more_is_not_waited_for(streams: Streams) -> None:
    pool = SlotPool(streams, limit=2)
    slot, unwanted, answers = pool.take(1), threading.Event(), []
    waiter = threading.Thread(target=lambda: answers.append(pool.wait(2, None, unwanted.is_set)))
    waiter.start()
    unwanted.set()
    pool.stir()
    waiter.join(20)
    assert answers == [None]
    pool.give(slot)
    assert len(pool.take(2)) == 2


@pytest.mark.parametrize("back", ["give", "discard"])
def test_who_waits_is_served_first_and_in_turn(streams: Streams, back: str) -> None:
    pool = SlotPool(streams, limit=4)
    slots, order = [pool.take(1) for _ in range(4)], []
    lock = threading.Lock()

    def work(streams: int) -> None:
        slot = pool.wait(streams, None)
        assert slot is not None
        with lock:
            order.append(streams)
            if streams == 3:  # one is free then, but another waits for two
                with pytest.raises(Full):
                    pool.take(1)
        pool.give(slot)

    crew = []
    for wanted in (3, 2, 4):
        crew.append(threading.Thread(target=work, args=(wanted,)))
        crew[-1].start()
        until(lambda: len(pool._queue) == len(crew))
    for slot in slots:
        with pytest.raises(Full):
            pool.take(1)
        getattr(pool, back)(slot)
    for thread in crew:
        thread.join()
    assert order == [3, 2, 4]
    assert len(pool.take(4)) == 4


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.0005)


# ---- against a model ----


class PoolMachine(RuleBasedStateMachine):
    """A pool is a set of streams, some lent, never more than its limit."""

    LIMIT = 7

    def __init__(self) -> None:
        super().__init__()
        self.streams = Streams()
        self.forgotten: list[Slot] = []
        self.pool = SlotPool(self.streams, self.reclaim, self.LIMIT, now=Clock(1 << 40))
        self.lent: list[Slot] = []
        self.idle: set[Stream] = set()

    def reclaim(self) -> None:
        while self.forgotten:
            slot = self.forgotten.pop()
            self.idle.update(slot)
            self.pool.give(slot)

    @property
    def out(self) -> set[Stream]:
        return {stream for slot in self.lent + self.forgotten for stream in slot}

    def ask(self, streams: int, patient: bool) -> Slot | None:
        return self.pool.wait(streams, 1) if patient else self.pool.take(streams)

    @rule(streams=st.integers(0, 8), patient=st.booleans())
    def take(self, streams: int, patient: bool) -> None:
        held = {stream for slot in self.lent for stream in slot}
        fits = len(held) + streams <= self.LIMIT
        made = len(self.streams.made)
        if not fits:
            with pytest.raises(Timeout if patient and streams <= self.LIMIT else Full):
                self.ask(streams, patient)
            return
        slot = self.ask(streams, patient)
        assert slot is not None
        fresh = self.streams.made[made:]
        assert len(slot) == len(set(slot)) == streams
        assert set(slot) <= self.idle | set(fresh)
        self.idle -= set(slot)
        self.lent.append(slot)

    @precondition(lambda self: self.lent)
    @rule(data=st.data(), how=st.sampled_from(["give", "discard", "forget"]))
    def end(self, data: st.DataObject, how: str) -> None:
        slot = self.lent.pop(data.draw(st.integers(0, len(self.lent) - 1)))
        if how == "give":
            self.idle.update(slot)
            self.pool.give(slot)
        elif how == "discard":
            self.pool.discard(slot)
        else:
            self.forgotten.append(slot)

    @rule(streams=st.integers(0, 9))
    def warm(self, streams: int) -> None:
        made = len(self.streams.made)
        self.pool.warm(streams)
        self.idle.update(self.streams.made[made:])
        assert len(self.idle | self.out) >= min(streams, self.LIMIT)

    @invariant()
    def bounded(self) -> None:
        assert not self.idle & self.out
        assert len(self.idle | self.out) <= self.LIMIT


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
