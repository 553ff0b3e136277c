"""What is settled everybody finds, at once; and what it takes to settle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry.store import Answer, Store
from kvferry.store.directory.acknowledged import Acknowledged
from kvferry.store.directory.company import STRANGER, Company
from kvferry.store.directory.messages import ALONE
from tests.store.directory.town import Town, free_port, town, until, value_of
from tests.store.settings import node_of

SECOND = 1_000_000_000
ENOUGH = 10.0  # seconds for what is there at once, on a busy machine


@pytest.fixture
def place() -> Iterator[Town]:
    with town() as place:
        yield place


# ---- three processes ----


def put_and_get(place: Town, seconds: float) -> int:
    """How many keys were put at one node, settled, and found at the other the moment after."""
    a, b = place.nodes
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        count += 1
        keys = [f"{time.monotonic_ns()} {at}" for at in range(1 + count % 3)]
        assert a.ask("put_settled", keys, ENOUGH)
        assert b.get(*keys) == [True] * len(keys), f"missed after {count}"
        if count % 4 == 0:
            assert a.ask("remove_settled", keys[:1], ENOUGH)
            assert b.get(*keys) == [False, *[True] * (len(keys) - 1)]
        a, b = b, a
    return count


@pytest.mark.parametrize("seconds", [1.0, pytest.param(15.0, marks=pytest.mark.slow)])
def test_what_is_settled_is_found_at_once(place: Town, seconds: float) -> None:
    """Also by a directory that was killed meanwhile, as soon as there is one again."""
    directory = place.directory()
    for _ in range(2):
        place.node(size=64 << 20)
    directory.wait(alive=2, telling=0)
    a, b = place.nodes
    assert put_and_get(place, seconds) > 20
    for turn in range(1 + int(seconds / 5)):
        before, after = [f"{turn} before"], [f"{turn} after"]
        directory.kill()
        assert not a.ask("put_settled", before, 0.3)
        directory.start()
        assert a.ask("put_settled", after, ENOUGH)
        until(lambda: b.get(*after) == [True])  # noqa: B023  its user has to find the directory
        assert b.get(*before) == [True]
        put_and_get(place, seconds / 3)


def test_every_user_of_a_node_settles(place: Town) -> None:
    """In its process, and in another: many at once share a report."""
    directory = place.directory()
    a, b = (place.node(size=64 << 20) for _ in range(2))
    directory.wait(alive=2, telling=0)
    with Store(f"kv://{a.address}") as user:
        many = [[f"{thread} {at}" for at in range(20)] for thread in range(20)]

        def put(keys: list[str]) -> None:
            for key in keys:
                user.put(key, value_of(key))
                settled.append(user.settle(ENOUGH))

        settled: list[bool] = []
        threads = [threading.Thread(target=put, args=(keys,)) for keys in many]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert settled == [True] * 20 * 20
        assert all(b.get(*keys) == [True] * 20 for keys in many)
        assert user.settle(0)
        directory.stop()
        user.put("late", value_of("late"))
        begun = time.monotonic()
        assert not user.settle(0.3)
        assert 0.3 <= time.monotonic() - begun < ENOUGH
        directory.go_on()
        assert user.settle(ENOUGH)
        assert b.get("late") == [True]


def test_what_was_put_elsewhere_is_settled_there(place: Town) -> None:
    directory = place.directory()
    b, c = (place.node(size=64 << 20) for _ in range(2))
    with Store(
        size="64KiB", listen=["127.0.0.1:0"], directory=[f"kv://{directory.address}"]
    ) as store:
        directory.wait(alive=3, telling=0)
        for at in range(20):
            keys = [f"{at} of {each}" for each in range(3)]
            values = [value_of(key) for key in keys]
            answers = store.put_batch(keys, values, prefer=[f"kv://{b.address}"])
            assert set(answers) == {Answer.STORED}
            assert store.settle(ENOUGH)
            assert c.get(*keys) == [True] * 3
        assert not store._elsewhere.touched
        assert set(store.remove_batch(keys)) == {Answer.REMOVED}
        assert store._elsewhere.touched
        b.kill()
        assert store.settle(ENOUGH)
        assert not store._elsewhere.touched


# ---- alone ----


def test_who_is_alone_does_not_wait_until_another_is_there(place: Town) -> None:
    directory = place.directory()
    with ExitStack() as stack:

        def node() -> Store:
            listen = [f"127.0.0.1:{free_port()}"]
            named = [f"kv://{directory.address}"]
            return stack.enter_context(Store(size="8MiB", listen=listen, directory=named))

        a = node()
        herald = node_of(a).herald
        assert herald is not None
        until(lambda: herald._alone)
        directory.stop()
        a.put("alone", b"1")
        assert a.settle(0.01, alone=False)  # for a second after the directory said so
        assert not a.settle(0.01)
        directory.go_on()
        b, seen = node(), 0
        deadline = time.monotonic() + ENOUGH
        while seen < 50:
            assert time.monotonic() < deadline
            there = b.enrolled
            a.put(f"key {seen}", b"1")
            assert a.settle(ENOUGH, alone=False)
            if there:
                assert b.get(f"key {seen}") == b"1"
                seen += 1


def test_without_a_directory_nobody_waits() -> None:
    with Store(size="1MiB", listen=["127.0.0.1:0"], peers=["kv://127.0.0.1:1"]) as store:
        store.put("x", b"1")
        assert store.settle(0)
        with Store(store.engine.addresses[0]) as user:
            assert user.settle(0)


def test_nobody_waits_for_a_directory_that_never_was() -> None:
    lost = f"kv://127.0.0.1:{free_port()}"
    store = Store(size="1MiB", listen=["127.0.0.1:0"], directory=[lost])
    store.put("x", b"1")
    said: list[bool] = []
    waiting = threading.Thread(target=lambda: said.append(store.settle(60.0)))
    waiting.start()
    herald = node_of(store).herald
    assert herald is not None
    until(lambda: herald.waiting)
    assert not store.settle(0.05)
    store.close()  # who waits does so no more
    waiting.join(ENOUGH)
    assert said == [False]


# ---- what is decided ----


@given(st.lists(st.tuples(st.sampled_from(["enrol", "lookup", "stranger", "alone", "look"]),
                          st.integers(0, 3 * SECOND)), max_size=40))  # fmt: skip
def test_nobody_believes_to_be_alone_who_is_not(steps: list[tuple[str, int]]) -> None:
    """Nor does a user believe that there is no other node, once that one says that it is there."""
    now, members, company = 0, 0, Company(0, SECOND)
    believed, seen = 0, 0  # until when somebody believes; from when on the last that came is seen
    stranger = -STRANGER
    for step, span in steps:
        now += span
        if step == "enrol":
            members += 1
            seen = now + company.came(now)
            assert seen >= believed or seen == now >= believed
            came = now
        elif step == "lookup":
            company.told(members, now)
            believed = now + ALONE if members <= 1 else believed
        elif step == "stranger":
            company.stranger(now)
            stranger = now
        elif members and company.alone(members, now):
            assert members == 1
            assert now - came >= SECOND
            assert now - stranger >= STRANGER
            believed = now + ALONE
        if members > 1 and now >= seen:
            assert now >= believed


@given(st.lists(st.tuples(st.sampled_from(["note", "told", "lost", "wait"]), st.integers(0, 5))))
def test_what_is_acknowledged(steps: list[tuple[str, int]]) -> None:
    known, noted, told = Acknowledged(), 0, -1
    for step, count in steps:
        if step == "note":
            noted += count
        elif step == "told":
            known.reach(noted)
            told = noted
        elif step == "lost":
            known.void()
            told = -1
        assert known.covers(noted) == known.wait(noted, 0) == (told == noted)
        assert known.covers(0) == (told >= 0)
    assert known.waiting == 0
