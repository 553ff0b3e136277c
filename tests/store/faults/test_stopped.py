"""A user stands still, is taken for dead, and goes on when others have filled the pool anew."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.store.faults.actor import BESIDE, FAR, MAPPED, STEPS, Actor
from tests.store.faults.keeper import QUICK, Keeper

MIB = 1 << 20
BIG = MIB - 4096
LARGE = 32 * MIB


WAYS = [MAPPED, BESIDE, FAR]


def fallen_silent(node: Keeper, way: str) -> Any:
    """Wait until the node takes its second user for dead: one of this host has its things kept."""
    if way == FAR:
        return node.until(users=1, quarantined=0)
    return node.until(silent=1)


SOME = [("reserved", BESIDE), ("writing", MAPPED), ("written", FAR)]
EVERY = [(step, way) for step in STEPS for way in WAYS]


AGAIN = [pytest.param(way, 4, marks=pytest.mark.slow) for way in WAYS]


@pytest.mark.parametrize("cases", [SOME, pytest.param(EVERY, marks=pytest.mark.slow)])
def test_in_mid_write(addresses: list[str], cases: list[tuple[str, str]]) -> None:
    with Keeper(addresses, QUICK) as node, Actor(node) as witness:
        witness.opened()
        for step, way in cases:
            with Actor(node, way) as user:
                stop_in_mid_write(node, witness, user, step)
            node.settled(users=1)
            assert witness.remove("struck") is True


def stop_in_mid_write(node: Keeper, witness: Actor, user: Actor, step: str) -> None:
    user.brake(step)
    user.begin("put", "struck", 1, BIG)
    user.reach()
    user.stop()
    seen = fallen_silent(node, user.way)
    assert seen["quarantined"] >= (0 if user.way == FAR else BIG)
    name = f"{step}-{user.way}"
    before = witness.refill(name, 2.5)
    assert node.look()["quarantined"] == seen["quarantined"]
    assert witness.get("struck") is None

    user.to_come("go")
    user.resume()
    user.hear()
    assert user.end().split(":")[0] == "PeerError"
    assert witness.get("struck") is None
    assert witness.check([f"{name}-{at}" for at in range(before)]) > 0
    witness.refill(f"{name}-after", 1.5)

    assert user.put("struck", 2, BIG // 2) == "STORED"
    assert witness.get("struck") == user.get("struck") == 2
    # The thread that wrote has ended: all that the user was before it joined anew is over.
    node.until(silent=0, quarantined=0)


def test_with_frames_under_way(addresses: list[str]) -> None:
    """Some of what it writes from another host has come, the rest is sent when it goes on."""
    with (
        Keeper(addresses, QUICK, size=16 * MIB) as node,
        Actor(node) as witness,
        Actor(node, FAR) as user,
    ):
        witness.opened()
        user.hold(True, 2)  # of a MiB each
        user.begin("put", "struck", 1, 8 * MIB)
        user.held()
        user.stop()
        fallen_silent(node, FAR)
        count = witness.refill("before", 3)
        user.to_come("hold", False)
        user.resume()
        user.hear()
        assert user.end().split(":")[0] == "PeerError"
        assert witness.get("struck") is None
        assert witness.check([f"before-{at}" for at in range(count)]) > 0
        assert user.put("struck", 2, BIG) == "STORED"
        assert witness.get("struck") == 2
        witness.refill("after", 2)


@pytest.mark.parametrize(("way", "rounds"), [(MAPPED, 1), *AGAIN])
def test_a_late_commit_is_refused(addresses: list[str], way: str, rounds: int) -> None:
    """Its channel is taken for over while what it wrote lies on its desk, or is on its way."""
    with Keeper(addresses, QUICK) as node, Actor(node) as witness, Actor(node, way) as user:
        witness.opened()
        for round_ in range(rounds):
            user.brake("written")
            user.begin("put", f"struck-{round_}", 1, BIG // 2)
            user.reach()
            user.stop()
            fallen_silent(node, way)
            witness.refill(f"round-{round_}", 1.2)
            user.to_come("go")
            user.resume()
            user.hear()
            assert user.end().split(":")[0] == "PeerError"
            assert witness.get(f"struck-{round_}") is None
            assert user.put(f"struck-{round_}", 2, 4096) == "STORED"


@pytest.mark.parametrize("way", [MAPPED, pytest.param(FAR, marks=pytest.mark.slow)])
def test_with_a_view(addresses: list[str], way: str) -> None:
    with Keeper(addresses, QUICK) as node, Actor(node) as witness, Actor(node, way) as user:
        assert witness.put("seen", 1, BIG) == "STORED"
        assert user.hold_view("seen") == 1
        user.stop()
        fallen_silent(node, way)
        assert witness.remove("seen") is True
        witness.refill("others", 2)
        if way == MAPPED:
            assert node.look()["deferred"] >= BIG
        user.resume()
        assert user.check_views() == 1
        assert user.get("others-0") in (0, None)
        witness.refill("more", 2)
        assert user.check_views() == 1
        user.let_views()
        node.until(deferred=0)


@pytest.mark.parametrize("way", [MAPPED, pytest.param(FAR, marks=pytest.mark.slow)])
def test_in_the_middle_of_a_large_read(addresses: list[str], way: str) -> None:
    """It leaves, and its place is written anew, while the reader stands still."""
    with (
        Keeper(addresses, size=2 * LARGE) as node,
        Actor(node) as witness,
        Actor(node, way) as user,
    ):
        assert witness.put("large", 1, LARGE) == "STORED"
        user.to_come("read_until", "large", LARGE, "SIGSTOP")
        user.stopped()
        if way == MAPPED:
            assert witness.remove("large") is True
            assert node.look()["deferred"] >= LARGE
        witness.refill("others", 2, MIB)
        if way == MAPPED:
            assert node.look()["deferred"] >= LARGE
        user.resume()
        assert user.hear() == 1
        node.until(deferred=0)
        witness.refill("more", 2, MIB)


def test_for_longer_than_its_lease(addresses: list[str]) -> None:
    """A reader elsewhere stands still until its lease has ended: it asks again, or says so."""
    with (
        Keeper(addresses, size=2 * LARGE) as node,
        Actor(node) as witness,
        Actor(node, FAR) as user,
    ):
        user.shorten_leases(0.3)
        assert witness.put("large", 1, LARGE) == "STORED"
        user.to_come("read_until", "large", LARGE, "SIGSTOP")
        user.stopped()
        while witness.remove("large") != True:  # noqa: E712  else it is why not
            time.sleep(0.02)
        witness.refill("others", 2, MIB)
        assert witness.put("large", 2, LARGE) == "STORED"
        user.resume()
        assert user.hear() == 2
