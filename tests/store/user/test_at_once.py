"""Calls under way while others are: awaited, cancelled, many, from several threads, at the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from kvferry.errors import Cancelled, ClosedError, Error, Full, Timeout, UsageError
from kvferry.store import Answer, Store
from kvferry.store.user import pending
from tests.store.settings import WAYS, Setting, sound

PAGE = 4096
KEYS = [f"key {at}" for at in range(40)]
VALUES = [bytes([at]) * PAGE for at in range(40)]


def outs() -> list[bytearray]:
    return [bytearray(PAGE) for _ in KEYS]


@pytest.fixture(params=["mapped", "far"])
def way(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def gate(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Calls in the store's threads stand still until it is set."""
    opened = threading.Event()
    put_batch = Store.put_batch

    def held(store: Store, *args: Any, **more: Any) -> Any:
        assert opened.wait(20)
        return put_batch(store, *args, **more)

    monkeypatch.setattr(Store, "put_batch", held)
    yield opened
    opened.set()


def test_waited_for(store: Store) -> None:
    put = store.put_batch_async(KEYS, VALUES)
    assert put.wait(20).ok
    assert put.done
    assert put.wait().ok  # again
    into = outs()
    assert store.get_batch_into_async(KEYS, into).wait(20).ok
    assert into == VALUES


def test_awaited(store: Store) -> None:
    async def both() -> list[bytearray]:
        assert (await store.put_batch_async(KEYS, VALUES)).ok
        into = [outs() for _ in range(8)]
        results = await asyncio.gather(
            *(asyncio.ensure_future(get(each)) for each in into), get(outs())
        )
        assert all(each.ok for each in results)
        assert all(each == VALUES for each in into)
        return into[0]

    async def get(into: list[bytearray]) -> Any:
        return await store.get_batch_into_async(KEYS, into)

    assert asyncio.run(both()) == VALUES


def test_what_fails_fails_where_it_is_waited_for(store: Store) -> None:
    said: list[dict[str, Any]] = []

    async def fail() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context))
        with pytest.raises(UsageError):
            await store.put_batch_async(["key"], [7])
        with pytest.raises(UsageError):
            await store.get_batch_into_async(["key"], ["text"])

    asyncio.run(fail())
    for call in (
        store.put_batch_async(["key"], [7]),
        store.get_batch_into_async([7], [bytearray(1)]),  # type: ignore[list-item]
        store.get_batch_into_async(["key", "more"], [bytearray(1)]),
    ):
        with pytest.raises(UsageError):
            call.wait(20)
    assert not said


def test_a_wait_may_end_before_the_call(store: Store, gate: threading.Event) -> None:
    call = store.put_batch_async(KEYS, VALUES)
    with pytest.raises(Timeout):
        call.wait(0.02)
    assert not call.done
    gate.set()
    assert call.wait(20).ok


def test_cancelled_before_it_starts(store: Store, gate: threading.Event) -> None:
    running = [store.put_batch_async([f"running {at}"], [b"v"]) for at in range(pending.AT_ONCE)]
    call = store.put_batch_async(KEYS, VALUES)
    call.cancel()
    assert call.done
    with pytest.raises(Cancelled):
        call.wait()
    gate.set()
    assert all(each.wait(20).ok for each in running)
    assert not store.exists_batch(KEYS).any()


def test_cancelled_while_it_is_under_way(setting: Setting) -> None:
    """At any moment: it is done, or Cancelled; and what it filled is right."""
    store = setting.user
    value = bytes(range(256)) * 2000
    store.put("large", value)
    for pause in range(20):
        into = bytearray(len(value))
        call = store.get_batch_into_async(["large"], [into])
        for _ in range(pause * 100):
            pass
        call.cancel()
        try:
            results = call.wait(20)
        except Cancelled:
            continue
        assert results.ok
        assert into == value
    assert store.get("large") == value


def test_cancelling_the_task_cancels_the_call(store: Store, gate: threading.Event) -> None:
    async def cancel() -> None:
        running = [store.put_batch_async([f"{at}"], [b"v"]) for at in range(pending.AT_ONCE)]
        call = store.put_batch_async(KEYS, VALUES)

        async def wait() -> None:
            await call

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert call.done
        gate.set()
        for each in running:
            await each

    asyncio.run(cancel())


def test_very_many_are_refused(
    store: Store, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "MOST", 8)
    calls = [store.put_batch_async([f"key {at}"], [b"v"]) for at in range(8)]
    with pytest.raises(Full) as refused:
        store.put_batch_async(["more"], [b"v"])
    assert refused.value.cause == "too_many_calls"
    calls.pop().cancel()
    gate.set()
    assert all(call.wait(20).ok for call in calls)
    assert store.put_batch_async(["more"], [b"v"]).wait(20).ok


def test_closed_meanwhile(store: Store) -> None:
    calls = [store.put_batch_async([f"{at} {key}" for key in KEYS], VALUES) for at in range(20)]
    store.close()
    for call in calls:
        assert call.done
        try:
            assert call.wait().ok
        except ClosedError:
            continue
    with pytest.raises(ClosedError):
        store.put_batch_async(KEYS, VALUES)
    with pytest.raises(ClosedError):
        store.get_batch_into_async(KEYS, outs())


EVERY_CALL: dict[str, Callable[[Store], Any]] = {
    "put": lambda store: store.put("key", b"v"),
    "get": lambda store: store.get("key"),
    "get_into": lambda store: store.get_into("key", bytearray(1)),
    "view": lambda store: store.view("key"),
    "exists": lambda store: store.exists("key"),
    "remove": lambda store: store.remove("key"),
    "why": lambda store: store.why("key"),
    "put_batch": lambda store: store.put_batch(["key"], [b"v"]),
    "get_batch": lambda store: store.get_batch(["key"]),
    "get_batch_into": lambda store: store.get_batch_into(["key"], [bytearray(1)]),
    "exists_batch": lambda store: store.exists_batch(["key"]),
    "remove_batch": lambda store: store.remove_batch(["key"]),
    "lease": lambda store: store.lease(["key"], 1),
    "pin": lambda store: store.pin(["key"]),
    "group": lambda store: store.group(["key"]),
    "stats": lambda store: store.stats(),
}


@pytest.mark.parametrize("way", WAYS)
def test_after_the_end_every_call_is_refused(store: Store) -> None:
    store.put("key", b"v")
    lease = store.lease(["key"], 30)
    store.close()
    store.close()  # idempotent
    for call in EVERY_CALL.values():
        with pytest.raises(ClosedError):
            call(store)
    for late in (lambda: lease.renew(1), lease.release):
        with suppress(Error):
            late()


def hammer(store: Store, number: int, rounds: int) -> None:
    """Own keys and common ones; whatever is found is right."""
    into = [bytearray(PAGE) for _ in range(10)]
    for turn in range(rounds):
        common = [f"common {(turn + at) % 50}" for at in range(5)]
        own = [f"own {number} {turn % 20} {at}" for at in range(5)]
        keys = common + own
        values = [key.encode().ljust(PAGE, b".") for key in keys]
        assert set(store.put_batch(keys, values)) <= {Answer.STORED, Answer.PRESENT, Answer.FULL}
        results = store.get_batch_into(keys, into)
        for at, answer in enumerate(results):
            assert answer in (Answer.FOUND, Answer.ABSENT), answer
            assert answer is Answer.ABSENT or into[at] == values[at]
        with store.view(keys[turn % 10]) as block:
            assert block in (None, values[turn % 10])
        if turn % 3 == 0:
            store.remove_batch(own[:2])
        with suppress(Full):  # when others write to all there is
            store.put(f"single {number} {turn}", values[0])
        assert store.get(f"single {number} {turn}") in (None, values[0])


def run(*bodies: Callable[[], None]) -> None:
    """Each in a thread; what one raises is raised."""
    raised: list[BaseException] = []

    def guarded(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rounds", [15, pytest.param(1500, marks=pytest.mark.slow)])
def test_several_threads_of_several_users(setting: Setting, rounds: int) -> None:
    with setting.another() as other:
        users = [setting.user, setting.user, setting.user, other, other]
        run(*(lambda user=user, at=at: hammer(user, at, rounds) for at, user in enumerate(users)))
        assert sound(setting.node) == []
    assert sound(setting.node) == []


@pytest.mark.parametrize("way", WAYS)
def test_closed_while_threads_use_it(make: Callable[..., Setting]) -> None:
    """Each call ends well or with ClosedError, and no new node comes of it."""
    setting = make()
    store, began = setting.user, threading.Barrier(4)

    def use() -> None:
        began.wait()
        with suppress(ClosedError, ConnectionError):
            hammer(store, threading.get_ident(), 100000)

    def end() -> None:
        began.wait()
        threading.Event().wait(0.05)
        store.close()

    run(use, use, use, end)
    for call in EVERY_CALL.values():
        with pytest.raises(ClosedError):
            call(store)
