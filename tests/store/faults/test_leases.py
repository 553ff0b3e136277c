"""Leases in shared memory, of users that are killed, and of one that writes what it likes there."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from kvferry.store import Store
from kvferry.testing import spawn
from kvferry.testing.process import Parent
from tests.store.faults.actor import FAR, MAPPED, Actor
from tests.store.faults.keeper import PATIENCE, Keeper

KIB = 1 << 10
KEYS = [f"kept {at}" for at in range(8)]


def put(user: Actor, version: int) -> None:
    for key in KEYS:
        assert user.put(key, version, 48 * KIB) == "STORED"


def there(user: Actor) -> list[Any]:
    return [user.get(key) for key in KEYS]


@pytest.mark.parametrize("way", [MAPPED, FAR])
def test_what_a_user_keeps_stays_for_others(keeper: Keeper, way: str) -> None:
    with Actor(keeper, way) as user, Actor(keeper) as other:
        put(other, 3)
        assert user.keep([*KEYS, "no"], 30.0) == len(KEYS)
        other.refill("other", 3)
        assert there(other) == [3] * len(KEYS)
        assert {other.remove(key) for key in KEYS} == {"Full: leased"}
        assert other.why(KEYS[0]) == "PRESENT"


def test_what_a_user_kept_that_is_killed_stays_until_then(addresses: list[str]) -> None:
    """Nobody has such a lease, so that nobody's end ends it."""
    with Keeper(addresses, limits={"longest_lease": 3_000_000_000}) as node, Actor(node) as other:
        put(other, 1)
        with Actor(node) as user:
            began = time.monotonic()
            assert user.keep(KEYS, 1000.0) == len(KEYS)
            user.kill()
        other.refill("other", 1.5)
        found, told = there(other), other.remove(KEYS[0])
        if time.monotonic() < began + 3.0:
            assert (found, told) == ([1] * len(KEYS), "Full: leased")
        deadline = time.monotonic() + PATIENCE
        while other.remove(KEYS[0]) is not True:
            assert time.monotonic() < deadline
        other.refill("more", 1.5)
        assert there(other) == [None] * len(KEYS)


def garbles(parent: Parent, address: str) -> None:
    """Every word is the end of days, or random."""
    store = Store(address)
    home: Any = store._own.home
    words = np.frombuffer(home._kept[-1]._export, np.uint64)
    draw = np.random.default_rng(5)
    parent.tell("begun")
    for _ in parent:
        words[:] = draw.integers(0, 1 << 63, len(words), np.uint64)
        words[draw.integers(0, 2, len(words), bool)] = np.iinfo(np.uint64).max
        parent.tell("done")
    store.close()


def test_garbage_is_a_lease_for_the_longest_time_and_no_more(addresses: list[str]) -> None:
    with (
        Keeper(addresses, limits={"longest_lease": 200_000_000}) as node,
        Actor(node) as user,
        spawn(garbles, node.unix) as hostile,
    ):
        hostile.hear()
        put(user, 1)
        for _ in range(5):
            assert hostile.ask("again") == "done"
            assert {user.keep(KEYS, 0.1), user.keep(["no"], 0.1)} == {len(KEYS), 0}
            assert there(user) == [1] * len(KEYS)
            node.look()
        user.refill("other", 1.5)
        assert user.keep(KEYS, 0.1) < len(KEYS)


def test_a_node_that_begins_again_knows_of_no_lease(keeper: Keeper) -> None:
    with Actor(keeper) as user:
        put(user, 1)
        assert user.keep(KEYS, 50.0) == len(KEYS)
        keeper.kill()
        keeper.start()
        deadline = time.monotonic() + PATIENCE
        while user.put(KEYS[0], 2, KIB) != "STORED":
            assert time.monotonic() < deadline
        assert user.keep(KEYS, 0.01) == 1
        user.refill("other", 1.5)
        assert there(user) == [None] * len(KEYS)
