"""Slots: bounded, used again, thrown away after a failure."""

from __future__ import annotations

import threading

import pytest

from kvferry.errors import Full, NoMemory
from kvferry.runtime import Stream
from kvferry.submit import SlotPool


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
    lock, wrong = threading.Lock(), []

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
