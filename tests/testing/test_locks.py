from __future__ import annotations

import threading

import pytest

from kvferry.testing.locks import Held, OrderedCondition, OrderedLock, Place


class Desk:
    """Locks that complain into a list."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self._held = Held(self.complaints.append)

    def lock(self, name: str, rank: int, *, leaf: bool = False, may: str = "") -> OrderedLock:
        why = dict.fromkeys(may.split(), "for a test")
        return OrderedLock(name, Place(rank, leaf, why), self._held)

    def does(self, what: str) -> None:
        self._held.does(what)

    def condition(self, lock: OrderedLock) -> OrderedCondition:
        return OrderedCondition(lock, self._held)


def taken(lock: OrderedLock) -> bool:
    """Asked in a thread that holds nothing."""
    answers: list[bool] = []

    def ask() -> None:
        answers.append(lock.acquire(blocking=False))
        if answers[0]:
            lock.release()

    asker = threading.Thread(target=ask)
    asker.start()
    asker.join()
    return not answers[0]


def test_rising_ranks_pass() -> None:
    desk = Desk()
    low, high = desk.lock("low", 1), desk.lock("high", 2, leaf=True)
    with low, high:
        assert taken(low)
        assert taken(high)
    assert not taken(low)
    assert not taken(high)
    assert desk.complaints == []


@pytest.mark.parametrize("rank", [1, 2])
def test_falling_and_equal_ranks_are_told_with_both_names(rank: int) -> None:
    desk = Desk()
    first, second = desk.lock("first", 2), desk.lock("second", rank)
    with first, second:
        assert taken(second)
    assert desk.complaints == [f"second (rank {rank}) taken under first (rank 2)"]


def test_nothing_is_taken_under_a_leaf() -> None:
    desk = Desk()
    with desk.lock("leaf", 1, leaf=True), desk.lock("other", 2):
        pass
    assert desk.complaints == ["other (rank 2) taken under leaf (rank 1), which is a leaf"]


def test_taking_it_twice_fails_instead_of_hanging() -> None:
    lock = Desk().lock("once", 1)
    with lock, pytest.raises(AssertionError, match="twice"):
        lock.acquire()


def test_a_reentrant_one_may_be_taken_twice() -> None:
    said: list[str] = []
    lock = OrderedLock("again", Place(1), Held(said.append), reentrant=True)
    with lock, lock:
        assert taken(lock)
    assert not taken(lock)
    assert said == []


def test_released_out_of_order_leaves_the_rest_counted() -> None:
    desk = Desk()
    low, middle, high = (desk.lock(str(rank), rank) for rank in range(3))
    low.acquire()
    high.acquire()
    low.release()
    with middle:
        assert len(desk.complaints) == 1
    high.release()
    with middle:
        assert len(desk.complaints) == 1


def test_each_thread_holds_its_own() -> None:
    desk = Desk()
    low, high = desk.lock("low", 1), desk.lock("high", 2)
    with high:
        assert not taken(low)
    assert desk.complaints == []


def test_who_does_not_hold_it_may_not_release_it() -> None:
    desk = Desk()
    lock = desk.lock("one", 1)
    lock.acquire()
    other = threading.Thread(target=lock.release)
    other.start()
    other.join()
    assert desk.complaints == ["one (rank 1) was released by a thread that does not hold it"]


def test_what_blocks_is_told_unless_it_may() -> None:
    desk = Desk()
    desk.does("send")
    with desk.lock("strict", 1), desk.lock("outbox", 2, may="send"), desk.lock("any", 3, may="*"):
        desk.does("send")
        desk.does("recv")
    assert desk.complaints == [
        "send under strict (rank 1)",
        "recv under strict (rank 1)",
        "recv under outbox (rank 2)",
    ]


def test_who_waits_for_a_condition_holds_nothing_else() -> None:
    desk = Desk()
    own = desk.lock("own", 2)
    changed = desk.condition(own)
    with own:
        changed.wait(0.001)
    assert desk.complaints == []
    with desk.lock("other", 1), own:
        changed.wait(0.001)
    assert desk.complaints == ["wait under other (rank 1)"]


def test_a_condition_wakes_who_waits() -> None:
    desk = Desk()
    changed = desk.condition(desk.lock("own", 1))
    woken: list[bool] = []

    def wait() -> None:
        with changed:
            woken.append(changed.wait_for(lambda: woken == ["now"], 10))

    waiter = threading.Thread(target=wait)
    waiter.start()
    with changed:
        woken.append("now")  # type: ignore[arg-type]
        changed.notify_all()
    waiter.join()
    assert woken[-1] is True
    assert desk.complaints == []
