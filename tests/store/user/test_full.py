"""A pool in which there is no room: each cause is told, and goes away with what caused it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from kvferry.errors import Full, UsageError
from kvferry.store import Answer, Limits, Pin, Store
from kvferry.store import messages as m
from tests.store.settings import Setting, sound

PAGE = bytes(range(256)) * 64
PAGES = 64  # of a pool of 1 MiB
HALF = bytes(1 << 19)


@pytest.fixture
def setting(emptied: Setting) -> Setting:
    return emptied


def fill(store: Store) -> list[str]:
    """Keys of as many pages as the pool holds."""
    keys = [f"page {at}" for at in range(PAGES)]
    for start in range(0, PAGES, 16):
        store.put_batch(keys[start : start + 16], [PAGE] * 16)
    return [key for key, there in zip(keys, store.exists_batch(keys), strict=True) if there]


def refused(store: Store, value: Any = HALF) -> str:
    """The cause with which one value is refused; the same goes for a batch."""
    with pytest.raises(Full) as error:
        store.put("new", value)
    (answer,) = store.put_batch(["new"], [value])
    assert answer.name.lower() == error.value.cause
    assert answer.safe_to_retry == error.value.safe_to_retry
    assert not store.exists("new")
    return error.value.cause


def test_all_is_pinned(store: Store) -> None:
    keys = fill(store)
    store.pin(keys)
    assert refused(store) == "pinned"
    assert store.exists_batch(keys).all()
    store.pin(keys, Pin.NONE)
    assert store.put("new", HALF) is Answer.STORED
    assert store.get("new") == HALF


def test_all_is_leased(store: Store) -> None:
    keys = fill(store)
    with store.lease(keys, 30):
        assert refused(store) == "leased"
        assert store.exists_batch(keys).all()
    assert store.put("new", HALF) is Answer.STORED
    assert store.get("new") == HALF


def test_all_is_leased_by_another(make: Callable[..., Setting]) -> None:
    setting = make()
    with setting.another() as other:
        keys = fill(setting.user)
        other.lease(keys, 30)
        assert refused(setting.user) == "leased"
    assert setting.user.put("new", HALF) is Answer.STORED


@pytest.mark.parametrize("way", ["embedded", "mapped"])
def test_all_is_looked_at(make: Callable[..., Setting]) -> None:
    setting = make()
    store = setting.user
    keys = fill(store)
    with ExitStack() as views:
        blocks: list[Any] = [views.enter_context(store.view(key)) for key in keys]
        assert refused(store) == "full"
        assert all(block == PAGE for block in blocks)
        blocks.clear()
    assert store.put("new", HALF) is Answer.STORED
    assert store.get("new") == HALF


def test_all_is_reserved_by_another(make: Callable[..., Setting]) -> None:
    setting = make(limits=Limits(reserved_share=1.0))
    other = setting.another()
    home = other._own.home
    column = m.column_of(np.full(PAGES, len(PAGE), np.int64))
    given = m.answers_in(home.ask(m.Reserve(column), m.Extents).answers)
    assert (given == Answer.RESERVED).sum() > PAGES * 0.8
    assert refused(setting.user) == "full"
    other.close()  # it leaves, and has nothing any more
    assert setting.user.put("new", HALF) is Answer.STORED
    assert setting.user.get("new") == HALF


def test_free_bytes_are_scattered_between_what_stays(store: Store) -> None:
    """Every other page is pinned: half of the pool is free, and no two pages of it together."""
    keys = fill(store)
    store.pin(keys)
    going = keys[::2]
    assert set(store.remove_batch(going)) == {Answer.REMOVED}
    assert refused(store, bytes(3 * len(PAGE))) == "fragmented"
    assert store.put("page", PAGE) is Answer.STORED
    store.pin(keys, Pin.NONE)
    assert store.put("new", bytes(3 * len(PAGE))) is Answer.STORED


def test_the_index_is_full_of_pinned_objects(make: Callable[..., Setting]) -> None:
    store = make(objects=64).user
    answers: list[Answer] = []
    pinned: list[Answer] = []
    for at in range(150):
        answers += store.put_batch([f"key {at}"], [b"v"])
        pinned += store.pin([f"key {at}"])  # of what is above the watermark one may leave before
    assert set(answers) == {Answer.STORED, Answer.INDEX_FULL}
    assert store.stats()["usage"]["count"] == pinned.count(Answer.FOUND)
    with pytest.raises(Full) as error:  # noqa: PT012
        for at in range(100):
            store.put(f"more {at}", b"v")
    assert error.value.cause == "index_full"
    store.pin([f"key {at}" for at in range(150)], Pin.NONE)
    assert store.put("new", b"v") is Answer.STORED
    assert store.get("new") == b"v"


def test_a_small_index_gives_way(make: Callable[..., Setting]) -> None:
    store = make(objects=64).user
    for at in range(0, 500, 10):
        keys = [f"key {at + one}" for one in range(10)]
        assert store.put_batch(keys, [key.encode() for key in keys]).ok
        assert store.get_batch(keys) == [key.encode() for key in keys]
    usage = store.stats()["usage"]
    assert usage["count"] <= 128


def test_a_batch_larger_than_what_one_may_reserve(store: Store) -> None:
    """A quarter of the pool at a time; all of it comes to be stored, in turn."""
    keys = [f"key {at}" for at in range(200)]
    values = [bytes([at]) * 4096 for at in range(200)]
    results = store.put_batch(keys, values)
    assert results.ok
    assert store.get_batch(keys) == values


def test_more_in_a_batch_than_the_pool_holds(store: Store) -> None:
    """The later ones push the earlier ones out."""
    keys = [f"key {at}" for at in range(600)]
    values = [bytes([at % 251]) * 4096 for at in range(600)]
    assert store.put_batch(keys, values).ok
    got = store.get_batch(keys)
    assert got[-1] == values[-1]
    assert all(copy in (None, value) for copy, value in zip(got, values, strict=True))


def test_nothing_goes_into_a_node_that_drains(make: Callable[..., Setting]) -> None:
    store = make().user
    store.put_batch(["a", "b"], [PAGE, PAGE])
    home = store._own.home
    lease = store.lease(["a"], 30)
    told = home.ask(m.Drain(), m.Told)
    assert told.answers == bytes([Answer.LEASED])
    assert store.exists_batch(["a", "b"]).tolist() == [True, False]
    store.put_batch(["c"], [bytes(70000)])
    with pytest.raises(Full) as error:
        store.put("c", bytes(70000))
    assert error.value.cause == "draining"
    lease.release()
    assert home.ask(m.Drain(), m.Told).answers == bytes([Answer.REMOVED])
    assert store.why("b").cause.name == "DRAINED"
    assert store.stats()["usage"]["objects"] == 0


def test_what_was_kept_for_the_largest_is_not_for_what_is_larger(
    make: Callable[..., Setting],
) -> None:
    """An extent of the whole pool in stock, from a write that failed."""
    store = make().user
    capacity = store.stats()["usage"]["capacity"]
    home, writer = store._own.both
    column = m.column_of(np.array([capacity], np.int64))
    reply = home.ask(m.Reserve(column), m.Extents)
    with writer._lock:
        writer._stock.put(capacity, *m.words_in(reply.attempts, reply.offsets))
    with pytest.raises(UsageError) as error:
        store.put("new", bytes(capacity + 1))
    assert error.value.cause == "too_large"
    assert store.put("new", bytes(capacity)) is Answer.STORED


def test_what_is_kept_ahead_comes_back(make: Callable[..., Setting]) -> None:
    setting = make()
    with setting.another() as other:
        for at in range(20):
            other.put(f"key {at}", bytes(1000))
        assert setting.owner.stats()["usage"]["reserved"] > 0
    if setting.way != "embedded":
        setting.user.close()
    assert setting.owner.stats()["usage"]["reserved"] == 0
    assert setting.owner.stats()["users"]["users"] == 1
    assert sound(setting.node) == []
