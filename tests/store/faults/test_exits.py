"""A user ends without a word, in each way in which a process ends, or with calls under way."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kvferry.engine import identity
from kvferry.errors import ClosedError, PeerError
from kvferry.store import Store
from kvferry.testing import spawn
from kvferry.testing.process import Parent
from tests.store.faults.actor import FAR, MAPPED, Actor
from tests.store.faults.keeper import Keeper
from tests.store.faults.load import ALL, Load
from tests.store.faults.values import value, version_of

KIB = 1 << 10
PATIENCE = 15.0


# ---- how a process ends: each with a lease, a view, a stock and threads in calls ----


def falls_off(store: Store) -> None:
    pass


def exits(store: Store) -> None:
    sys.exit(3)


def raises(store: Store) -> None:
    raise KeyError("as programs do")


def leaves_at_once(store: Store) -> None:
    os._exit(4)


def is_terminated(store: Store) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def exits_in_a_thread(store: Store) -> None:
    threading.Thread(target=leaves_at_once, args=(store,)).start()
    time.sleep(PATIENCE)


# The exit status; a child tells its parent of exceptions, and exits with 1.
ENDS: dict[Callable[[Store], None], int] = {
    falls_off: 0,
    exits: 1,
    raises: 1,
    leaves_at_once: 4,
    is_terminated: -signal.SIGTERM,
    exits_in_a_thread: 4,
}
BY_NAME = {end.__name__: end for end in ENDS}


def user(parent: Parent, address: str, way: str, end: str) -> None:
    if way == FAR:
        identity._namespace = lambda kind: 1
    store = Store(address, path="auto" if way == MAPPED else "tcp/host")
    store.put("shared", value("shared", 1, 64 * KIB))
    view = store.view("shared").__enter__()
    assert view is not None
    version_of("shared", view)
    store.lease(["shared"], 50.0)
    keep = Load(store, "load", 24, 32 * KIB, 2, ALL), view, store
    time.sleep(0.05)
    parent.tell(keep[0].look())
    BY_NAME[end](store)


SOME = [(raises, FAR), (leaves_at_once, MAPPED)]
EVERY = [(end, way) for end in ENDS for way in (MAPPED, FAR)]


@pytest.mark.parametrize("cases", [SOME, pytest.param(EVERY, marks=pytest.mark.slow)])
def test_a_process_ends(keeper: Keeper, cases: list[tuple[Callable[[Store], None], str]]) -> None:
    with Actor(keeper) as witness:
        witness.opened()
        for end, way in cases:
            status = ENDS[end]
            address = keeper.unix if way == MAPPED else keeper.tcp
            with spawn(user, address, way, end.__name__) as child:
                child.hear()
                assert child.wait(PATIENCE) == status, end
            keeper.settled(users=1)
            assert witness.get("shared") == 1
            assert witness.remove("shared") is True
        witness.refill("after", 2)


# ---- with calls under way ----


def closes(parent: Parent, address: str, way: str) -> None:
    """Close a store in the middle of calls, which end, and each one after."""
    if way == FAR:
        identity._namespace = lambda kind: 1
    closed = {f"{kind} ClosedError: closed" for kind in ALL}
    for round_ in range(3):
        store = Store(address, path="auto" if way == MAPPED else "tcp/host")
        pending = [
            store.put_batch_async([f"{round_}-{at}"], [value(f"{round_}-{at}", 1, 32 * KIB)])
            for at in range(8)
        ]
        load = Load(store, "load", 24, 32 * KIB, 3, ALL)
        made = 0
        while made < 10:
            made += sum(load.look().values())
            time.sleep(0.001)
        closing = time.monotonic()
        store.close()
        assert time.monotonic() - closing < 5.0
        load.look()  # what ended before
        seen = {""}
        while not seen or seen - closed:
            assert time.monotonic() < closing + PATIENCE, seen
            time.sleep(0.01)
            seen = set(load.look())
        assert max(load.end().values()) < 5.0
        for each in pending:
            with suppress(ClosedError):  # it had not begun
                assert each.wait(1.0).ok


@pytest.mark.parametrize("way", [MAPPED, FAR])
def test_a_store_is_closed_under_its_threads(keeper: Keeper, way: str) -> None:
    address = keeper.unix if way == MAPPED else keeper.tcp
    with spawn(closes, address, way) as child:
        child.result(60.0)
    keeper.settled()


def forks(parent: Parent, address: str, way: str) -> list[int]:
    """Fork in the middle of calls of other threads, and be a user in the child as well."""
    if way == FAR:
        identity._namespace = lambda kind: 1
    value("", 0, 64 * KIB)  # what is imported for it is imported before anybody forks
    store = Store(address, path="auto" if way == MAPPED else "tcp/host")
    load = Load(store, "load", 24, 32 * KIB, 2, ALL)
    statuses = []
    for round_ in range(4):
        while not load.look():
            time.sleep(0.001)
        pid = os.fork()
        if not pid:
            signal.alarm(int(PATIENCE))
            os._exit(_child(store, f"child-{round_}"))
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        key = f"child-{round_}"
        found = store.get(key)
        assert found is not None
        assert version_of(key, found) == 7
    load.end()
    store.close()
    return statuses


def _child(store: Store, key: str) -> int:
    try:
        assert store.put(key, value(key, 7, 32 * KIB)).name == "STORED"
        found = store.get(key)
        assert found is not None
        assert version_of(key, found) == 7
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        return 1
    return 0


@pytest.mark.parametrize("way", [MAPPED, FAR])
def test_a_process_forks_under_its_threads(keeper: Keeper, way: str) -> None:
    address = keeper.unix if way == MAPPED else keeper.tcp
    with spawn(forks, address, way) as child:
        assert child.result(60.0) == [0] * 4
    keeper.settled()


# ---- coming and going ----


def comes_and_goes(parent: Parent, address: str, way: str, times: int) -> None:
    if way == FAR:
        identity._namespace = lambda kind: 1
    for each in range(times):
        with Store(address, path="auto" if way == MAPPED else "tcp/host") as store:
            key = f"{each % 10}"
            store.put(key, value(key, each, KIB))
            found = store.get(key)
            assert found is not None
            version_of(key, found)


@pytest.mark.parametrize(
    ("ways", "times"),
    [([MAPPED], 12), pytest.param([MAPPED, FAR], 200, marks=pytest.mark.slow)],
)
def test_many_come_and_go(keeper: Keeper, ways: list[str], times: int) -> None:
    held = ("regions", "descriptors", "threads", "users")
    for way in ways:
        address = keeper.unix if way == MAPPED else keeper.tcp
        before: dict[str, Any] = {}
        for more in (4, times):
            with spawn(comes_and_goes, address, way, more) as child:
                child.result(120.0)
            before = before or keeper.settled()
        keeper.until(**{name: before[name] for name in held if name != "threads"})
        assert keeper.look()["threads"] <= before["threads"] + 64  # as many as its pool may have


def joins_and_dies(parent: Parent, address: str) -> None:
    Store(address)
    os._exit(0)


def test_a_user_ends_before_its_first_call(keeper: Keeper) -> None:
    for _ in range(2):
        with spawn(joins_and_dies, keeper.unix) as child:
            assert child.wait() == 0
        keeper.settled()


def test_a_process_is_gone_when_its_join_arrives(tmp_path: Any) -> None:
    """Its number names no process: the node sees it off like any other that has exited."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
    os.waitpid(pid, 0)
    with Store(size=1 << 20, listen=["127.0.0.1:0"]) as owner:
        home: Any = owner._own.home
        regions = set(owner.engine.regions)
        for mapped in (False, True):
            with suppress(PeerError):  # it may be seen before the join is over
                home._node.join(99, "gone", pid, mapped)
            deadline = time.monotonic() + PATIENCE
            while len(home._node.members) > 1:
                assert time.monotonic() < deadline, "it stays a user"
                time.sleep(0.01)
        assert set(owner.engine.regions) == regions
