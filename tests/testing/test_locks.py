from __future__ import annotations

import threading

import pytest

from kvferry.testing import OrderedLock


def test_rising_ranks_pass() -> None:
    low, high = OrderedLock("low", 1), OrderedLock("high", 2)
    with low, high:
        assert low.locked()
        assert high.locked()
    assert not low.locked()
    assert not high.locked()


@pytest.mark.parametrize("rank", [1, 2])
def test_falling_and_equal_ranks_fail_and_name_both(rank: int) -> None:
    first, second = OrderedLock("first", 2), OrderedLock("second", rank)
    with first, pytest.raises(AssertionError, match=r"'second'.*while.*'first'"):
        second.acquire()
    assert not second.locked()
    with second:
        assert second.locked()


def test_taking_it_twice_fails_instead_of_hanging() -> None:
    lock = OrderedLock("once", 1)
    with lock, pytest.raises(AssertionError):
        lock.acquire()


def test_released_out_of_order_leaves_the_rest_counted() -> None:
    low, middle, high = (OrderedLock(str(rank), rank) for rank in range(3))
    low.acquire()
    high.acquire()
    low.release()
    with pytest.raises(AssertionError):
        middle.acquire()
    high.release()
    with middle:
        pass


def test_ranks_are_counted_per_thread() -> None:
    low, high = OrderedLock("low", 1), OrderedLock("high", 2)
    taken: list[bool] = []

    def elsewhere() -> None:
        with low:
            taken.append(True)

    with high:
        worker = threading.Thread(target=elsewhere)
        worker.start()
        worker.join()
    assert taken == [True]


def test_excludes_like_a_lock() -> None:
    lock = OrderedLock("one", 1)
    answers: list[bool] = []
    with lock:
        worker = threading.Thread(
            target=lambda: answers.extend(
                [lock.acquire(blocking=False), lock.acquire(timeout=0.01)]
            )
        )
        worker.start()
        worker.join()
    assert answers == [False, False]


def test_only_its_holder_releases_it() -> None:
    lock = OrderedLock("one", 1)
    with pytest.raises(AssertionError, match="does not hold"):
        lock.release()
