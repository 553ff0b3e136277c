"""Extents are ordered while what was given before is written: who puts batches need not ask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvferry.errors import PeerError
from kvferry.store import Answer, Store
from kvferry.store import messages as m
from kvferry.store.user.orders import Orders
from tests.store.settings import MIB, Setting, sound
from tests.store.user.test_fork import in_child

BATCH, SIZE = 8, 4096


@pytest.fixture
def setting(make: Callable[..., Setting]) -> Setting:
    return make(size=16 * MIB)


@pytest.fixture
def asked(setting: Setting) -> Iterator[Asked]:
    home: Any = setting.user._own.home
    asked = Asked(home)
    home.ask = asked.ask
    yield asked
    del home.ask, asked._ask  # of which each keeps the other


class Asked:
    """What a user reserves, and in which thread; `gate` holds orders up, `broken` fails them."""

    def __init__(self, home: Any) -> None:
        self.own: list[int] = []  # extents that whoever puts asked for
        self.ordered: list[int] = []
        self.most = 0  # orders at once
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False
        self._now = 0
        self._ask, self._caller = home.ask, threading.get_ident()

    def ask(self, request: m.Request, kind: type[Any], timeout: float | None = None) -> Any:
        if not isinstance(request, m.Reserve):
            return self._ask(request, kind, timeout)
        count = len(m.numbers_in(request.sizes)[0])
        if threading.get_ident() == self._caller:
            self.own.append(count)
            return self._ask(request, kind, timeout)
        self.ordered.append(count)
        self._now += 1
        self.most = max(self.most, self._now)
        assert self.gate.wait(10)
        self._now -= 1
        if self.broken:
            raise PeerError("it does not come", cause="node_gone")
        return self._ask(request, kind, timeout)


def put(store: Store, turn: int, size: int = SIZE) -> None:
    keys = [f"{size} {turn} {at}" for at in range(BATCH)]
    values = [bytes([turn, at]) * (size // 2) for at in range(BATCH)]
    assert set(store.put_batch(keys, values)) == {Answer.STORED}
    assert store.get_batch(keys) == values


apart = pytest.mark.parametrize("way", ["mapped", "far"])
mapped = pytest.mark.parametrize("way", ["mapped"])


@apart
def test_only_the_first_batch_asks(setting: Setting, asked: Asked) -> None:
    store = setting.user
    for turn in range(12):
        put(store, turn)
    store._own.both[1]._orders.wait()
    assert len(asked.own) == 1
    assert asked.most == 1
    limit = store._own.home.joined.stock
    assert setting.owner.stats()["usage"]["reserved"] <= limit
    assert max(asked.ordered) * SIZE <= limit


@pytest.mark.parametrize("way", ["embedded"])
def test_who_has_the_node_in_its_process_orders_nothing(setting: Setting, asked: Asked) -> None:
    for turn in range(5):
        put(setting.user, turn)
    assert asked.own
    assert not asked.ordered


@mapped
def test_a_slow_order_is_waited_for_by_its_own_size_alone(setting: Setting, asked: Asked) -> None:
    store = setting.user
    asked.gate.clear()
    put(store, 0)  # orders
    put(store, 1, SIZE // 2)
    waits = threading.Thread(target=put, args=(store, 2))
    waits.start()
    put(store, 3, SIZE // 2)
    asked.gate.set()
    waits.join(10)
    assert not waits.is_alive()
    assert asked.most == 1
    assert len(asked.own) <= 3


@mapped
def test_a_failed_order_costs_nothing_else(setting: Setting, asked: Asked) -> None:
    asked.broken = True
    for turn in range(4):
        put(setting.user, turn)
    setting.user._own.both[1]._orders.wait()
    assert len(asked.own) > 1
    assert asked.ordered
    asked.broken = False
    put(setting.user, 5)


@apart
def test_what_comes_after_the_user_left_goes_back(setting: Setting, asked: Asked) -> None:
    asked.gate.clear()
    put(setting.user, 0)
    leaves = threading.Thread(target=setting.user.close)
    leaves.start()
    leaves.join(0.05)
    assert leaves.is_alive()
    asked.gate.set()
    leaves.join(10)
    assert setting.owner.stats()["usage"]["reserved"] == 0
    assert sound(setting.node) == []


@mapped
def test_a_full_pool_takes_orders_back(setting: Setting, asked: Asked) -> None:
    """What is on its way is room, too, for who finds none."""
    store, largest = setting.user, setting.owner.stats()["usage"]["capacity"]
    asked.gate.clear()
    put(store, 0)
    threading.Timer(0.1, asked.gate.set).start()
    assert store.put("all", bytes(largest)) is Answer.STORED


@mapped
def test_a_child_does_not_wait_for_an_order_of_its_parent(setting: Setting, asked: Asked) -> None:
    asked.gate.clear()
    put(setting.user, 0)

    def body() -> None:
        put(setting.user, 1)
        setting.user.close()

    assert in_child(body) == 0
    asked.gate.set()
    put(setting.user, 2)


@mapped
def test_several_threads_put(setting: Setting) -> None:
    def many(thread: int) -> None:
        for turn in range(5):
            put(setting.user, 100 * (thread % 2) + turn, SIZE << thread)

    threads = [threading.Thread(target=many, args=(each,)) for each in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    keys = [f"{SIZE << thread} {100 * (thread % 2) + 4} 7" for thread in range(3)]
    assert setting.user.exists_batch(keys).all()
    assert sound(setting.node) == []


def test_one_order_at_a_time() -> None:
    orders, gate, done = Orders(), threading.Event(), list[int]()

    def fetch(room: int, count: int) -> None:
        assert gate.wait(10)
        done.append(count)

    assert orders.begin(fetch, 64, 1)
    assert not orders.begin(fetch, 128, 2)
    orders.wait(128)  # nobody waits for what is of another room
    assert done == []
    gate.set()
    orders.wait(64)
    assert done == [1]
    assert orders.begin(fetch, 128, 3)
    orders.close()
    assert done == [1, 3]
    assert not orders.begin(fetch, 64, 4)
    orders.wait()
    orders.close()
