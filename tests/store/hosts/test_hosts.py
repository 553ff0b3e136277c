"""Nodes, a directory and users on hosts of their own, whose wires are cut."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kvferry.testing.faults.party import until
from tests.store.hosts.lan import lan
from tests.store.hosts.village import Village, found, village

A, B, C = ([f"{name} {at}" for at in range(20)] for name in "abc")
SHORT = 6.0  # seconds that anything may take, while a user waits for a node for one


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Village]:
    with village(tmp_path) as made:
        yield made


def test_values_go_from_host_to_host_while_wires_are_cut_and_healed(place: Village) -> None:
    (a, b), net = place.users, place.net
    apart = place.user(net.host())
    assert a.put(*A) == b.put(*B) == ["STORED"] * 20
    found(b, *A)
    found(a, *B)
    found(apart, *A, *B)
    net.part(*place.hosts)
    assert b.get(*A, *B) == [False] * 20 + [True] * 20
    assert b.took < SHORT
    assert b.get(A[0]) == [False]
    assert b.took < 0.5  # who does not answer is not asked again and again
    assert apart.get(*A, *B) == [True] * 40  # reaches both
    net.heal()
    net.cut(place.keeper)
    assert a.put(*C) == ["STORED"] * 20
    assert a.get(*A, *C) == [True] * 40
    assert a.get("never") == [False]
    assert a.took < SHORT
    net.heal()
    found(b, *A, *C)
    place.end(apart)


@pytest.mark.slow
def test_a_user_whose_node_is_cut_off_is_told_so_and_returns(place: Village) -> None:
    (a, b), net = place.users, place.net
    apart = place.user(net.host())
    a.put(*A)
    apart.put(*C)
    found(apart, *A)
    net.part(*net.hosts[1:])  # hosts of nodes, and of the user
    assert apart.get(*A) == [False] * 20
    assert apart.took < SHORT
    (said,) = apart.put("late")
    assert said.startswith(("Timeout ", "PeerError "))
    assert apart.took < SHORT
    net.heal()
    found(apart, *A, *C)
    found(b, *A)
    assert apart.put("late") == ["STORED"]
    place.end(apart)


def test_namespaces_do_not_outlive_a_test_that_fails(tmp_path: Path) -> None:
    names: set[str] = set()

    def fail() -> None:
        with lan(tmp_path) as net:
            names.update((net.host().namespace, net.host().namespace))
            assert names < _namespaces()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not names & _namespaces()


def _namespaces() -> set[str]:
    told = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    return {line.split()[0] for line in told.stdout.splitlines()}


@pytest.mark.slow
def test_a_directory_that_was_cut_off_for_longer_than_every_span(place: Village) -> None:
    """It takes all for dead, and knows all again."""
    (a, b), net = place.users, place.net
    assert a.put(*A) == b.put(*B) == ["STORED"] * 20
    found(b, *A)
    net.cut(place.keeper)
    end = time.monotonic() + 14
    while time.monotonic() < end:
        assert a.get(*A[:5]) == [True] * 5
        assert a.took < 0.5
        assert set(b.get(*A)) == {False}
        assert b.took < SHORT
    assert a.put(*C) == ["STORED"] * 20
    net.heal()
    found(b, *A, *C)
    found(a, *B)
    place.end()


@pytest.mark.slow
def test_a_node_that_is_cut_from_the_directory_serves_whoever_knows_it(place: Village) -> None:
    (a, b), net = place.users, place.net
    assert a.put(*A) == ["STORED"] * 20
    found(b, *A)
    net.part(place.keeper, place.hosts[0])
    for _ in range(100):
        assert a.get(*A) == [True] * 20
        assert b.get(*A) in ([True] * 20, [False] * 20)
        time.sleep(0.14)
    assert b.get(*A) == [False] * 20  # dead, as far as the directory can tell
    assert b.took < 0.5
    assert a.put(*C) == ["STORED"] * 20
    net.heal()
    found(b, *A, *C)
    place.end()


@pytest.mark.slow
def test_what_was_removed_while_a_host_was_cut_off_does_not_come_back(place: Village) -> None:
    (a, b), net = place.users, place.net
    assert a.put(*A, replicas=2) == ["STORED"] * 20
    assert a.put(*C) == ["STORED"] * 20
    found(b, *A, *C)
    net.cut(place.hosts[0])
    assert set(b.remove(*A)) == {"NODE_GONE"}  # it may have them, and does not answer
    time.sleep(11)
    assert set(b.remove(*A)) == {"ABSENT"}
    assert a.get(*A) == [True] * 20  # who is at home there
    net.heal()
    found(b, *C)
    until(lambda: not any(a.get(*A)), "it has heard what was removed")
    assert not any(b.get(*A))
    assert a.why(A[0]) == b.why(A[0]) == "REMOVED"
    place.end()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_wires_are_cut_at_random_under_load(place: Village, seed: int) -> None:
    """No byte is wrong and no call hangs, whatever is cut; in the end everything is found."""
    random, net, users = Random(seed), place.net, place.users
    stored: list[list[str]] = [[], []]
    faults = (
        lambda: net.cut(random.choice(net.hosts)),
        lambda: net.part(*random.sample(net.hosts, 2)),
        net.heal,
        net.heal,
    )
    for turn in range(60):
        random.choice(faults)()
        for which, user in enumerate(users):
            keys = [f"{which} {turn} {at}" for at in range(5)]
            assert user.put(*keys) == ["STORED"] * 5
            stored[which] += keys
            assert user.took < SHORT
            assert user.get(*stored[which][-50:]) == [True] * len(stored[which][-50:])
            if stored[1 - which]:
                user.get(*random.sample(stored[1 - which], 5))
            assert user.took < SHORT
    net.heal()
    for which, user in enumerate(users):
        found(user, *stored[1 - which])
    place.end()
