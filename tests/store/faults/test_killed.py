"""A user is killed, at every step: what it had is free, and nobody reads half a value."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.store.faults.actor import FAR, MAPPED, STEPS, Actor
from tests.store.faults.keeper import Keeper

KIB, MIB = 1 << 10, 1 << 20
BIG = MIB - 4096  # bytes: a quarter of the pool, what one user may have reserved


def putting(step: str) -> Callable[[Keeper, Actor], None]:
    def reach(node: Keeper, user: Actor) -> None:
        user.brake(step)
        user.begin("put", "struck", 1, BIG)
        user.reach()
        assert node.look()["reserved"] >= BIG

    return reach


def posted(node: Keeper, user: Actor) -> None:
    """What it wrote lies on its desk, or is on its way, and the node stands still."""
    putting("written")(node, user)
    node.child.stop()
    user.go()
    if user.way == MAPPED:
        user.posted()


def viewing(node: Keeper, user: Actor) -> None:
    assert user.put("struck", 1, BIG) == "STORED"
    assert user.hold_view("struck") == 1
    assert user.remove("struck") is True
    if user.way == MAPPED:
        assert node.look()["deferred"] >= BIG


def leasing(node: Keeper, user: Actor) -> None:
    assert user.put("struck", 1, BIG) == "STORED"
    assert user.lease(["struck"], 50.0) == 1


def idle(node: Keeper, user: Actor) -> None:
    """It just joined."""
    user.opened()


MOMENTS: dict[str, Callable[[Keeper, Actor], None]] = {
    "joined": idle,
    **{step: putting(step) for step in STEPS},
    "posted": posted,
    "viewing": viewing,
    "leasing": leasing,
}


SOME = [("writing", MAPPED), ("posted", MAPPED), ("viewing", MAPPED), ("written", FAR)]
EVERY = [(moment, way) for moment in MOMENTS for way in (MAPPED, FAR)]


@pytest.mark.parametrize("cases", [SOME, pytest.param(EVERY, marks=pytest.mark.slow)])
def test_at_each_moment(keeper: Keeper, cases: list[tuple[str, str]]) -> None:
    with Actor(keeper) as witness:
        witness.opened()
        for moment, way in cases:
            reach = MOMENTS[moment]
            with Actor(keeper, way) as user:
                reach(keeper, user)
                user.kill()
            keeper.child.resume()  # if it stood still
            seen = keeper.until(users=1, silent=0, quarantined=0, deferred=0)
            assert seen["reserved"] < BIG, (moment, seen)
            found = witness.get("struck")
            whole = {"posted": (None, 1), "leasing": (1,)}.get(moment, (None,))
            assert found in whole, (moment, found)
            assert witness.refill(f"{moment}-{way}", 1.2) > 0
            witness.remove("struck")
            assert witness.put("struck", 2, BIG) == "STORED"
            assert witness.get("struck") == 2
            assert witness.remove("struck") is True


@pytest.mark.slow
@pytest.mark.parametrize("way", [MAPPED, FAR])
def test_in_the_middle_of_a_large_read(addresses: list[str], way: str) -> None:
    size = 48 * MIB
    with Keeper(addresses, size=2 * size) as node, Actor(node) as witness:
        assert witness.put("large", 1, size) == "STORED"
        with Actor(node, way) as user:
            user.to_come("read_until", "large", size, "SIGKILL")
            assert user.child.wait() == -9
        node.until(users=1)  # with the user its lease ends
        assert witness.remove("large") is True
        node.until(deferred=0, quarantined=0)
        assert witness.put("large", 2, size) == "STORED"
        assert witness.get("large") == 2


@pytest.mark.parametrize("times", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_at_any_moment(keeper: Keeper, times: int) -> None:
    """In several threads of calls of all kinds, while others make the same ones."""
    with Actor(keeper) as witness:
        witness.load("load", 48, 48 * KIB)
        for each in range(times):
            with Actor(keeper, (MAPPED, FAR)[each % 2]) as user:
                user.load("load", 48, 48 * KIB)
                user.until_ends("put STORED", "get there")
                time.sleep(0.002 * (each % 17))  # at another moment each time
                user.kill()
            keeper.until(users=1, silent=0)
            ends = witness.until_ends("put STORED", "get there", "view there")
            bad = {end for end in ends if "Error" in end or "Timeout" in end}
            assert not bad, bad
        witness.load_end()
        witness.refill("after", 2)
