"""The commands of two directories over a real etcd, with nodes and users under load, and faults.

What is shorter, about elections alone, is in test_election.py.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from kvferry.testing.faults.party import until
from tests.store.directory.elected import Candidate, Elected, Here, Watcher
from tests.store.directory.etcd_server import EtcdServer
from tests.store.hosts.lan import Host, Lan, lan

FAILOVER = 5.0  # seconds, of which etcd's lease takes 2


class Scene:
    """etcd, two directories, two nodes and their users, all told of 200 keys."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.etcd = EtcdServer(folder)
        stack.callback(self.etcd.kill)
        places = [Here(folder / name) for name in ("first", "second", "a", "b")]
        for place in places:
            place.folder.mkdir()
        self.it = Elected(stack, places, self.etcd.endpoint)
        self.watcher = Watcher(stack)
        for _ in range(5):
            self.it.put()
        self.it.settle()

    def roles(self) -> tuple[Candidate, Candidate]:
        """Who leads, and who does not."""
        leader = self.watcher.leader(self.it.candidates)
        (other,) = [each for each in self.it.candidates if each is not leader]
        return leader, other

    def takes_over(self, other: Candidate) -> float:
        """Wait until it leads and knows all: the seconds that it took."""
        keys = [key for some in self.it.keys for key in some]
        began = time.monotonic()
        until(lambda: self.watcher.leads(other.at), "the other leads")
        until(lambda: self.watcher.knows(other.at, keys), "it knows all")
        return time.monotonic() - began


@contextmanager
def apart(folder: Path) -> Iterator[tuple[Lan, Host, Elected, Watcher]]:
    """The same with a host for each, the first of which is etcd's."""
    with lan(folder) as net, ExitStack() as stack:
        keeper, *places = [net.host() for _ in range(5)]
        etcd = EtcdServer(folder, keeper.address, keeper.inside)
        stack.callback(etcd.kill)
        it = Elected(stack, places, etcd.endpoint)
        watcher = Watcher(stack, net.host().namespace)
        it.settle()
        yield net, keeper, it, watcher


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(stack, tmp_path)


@pytest.mark.slow
def test_a_killed_leader_is_followed_by_one_that_knows_all(scene: Scene) -> None:
    leader, other = scene.roles()
    leader.command.child.kill()
    took = scene.takes_over(other)
    print(f"failover: {took:.2f} s")
    assert took < FAILOVER
    scene.it.settle()
    scene.it.end()
    assert other.command.end() == 0


@pytest.mark.slow
def test_how_long_a_failover_takes(scene: Scene) -> None:
    took = []
    for _ in range(10):
        for _ in range(5):
            scene.it.put()
        scene.it.settle()
        leader, other = scene.roles()
        leader.command.child.kill()
        took.append(scene.takes_over(other))
        scene.it.settle()
        leader.start()
    print(f"failovers: {', '.join(f'{each:.2f}' for each in sorted(took))} s")
    assert max(took) < FAILOVER
    scene.it.end()


@pytest.mark.slow
def test_a_leader_that_stood_still_leads_no_more(scene: Scene) -> None:
    leader, other = scene.roles()
    for _ in range(3):
        leader.command.child.stop()
        scene.it.bear(1.0)
        assert scene.takes_over(other) < FAILOVER + 1  # who is stopped does not refuse
        scene.it.settle()
        leader.command.child.resume()
        for _ in range(20):
            assert not scene.watcher.leads(leader.at)
            assert scene.watcher.leads(other.at)
        scene.it.settle()
        leader, other = other, leader
    scene.it.end()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 6.0])
@pytest.mark.parametrize("fault", ["stopped", "killed"])
def test_without_etcd_nodes_and_users_carry_on(scene: Scene, fault: str, seconds: float) -> None:
    scene.roles()
    if fault == "stopped":
        scene.etcd.stop()
    else:
        scene.etcd.kill()
    scene.it.bear(seconds)
    if seconds > 2:
        assert not any(scene.watcher.leads(each.at) for each in scene.it.candidates)
    if fault == "stopped":
        scene.etcd.go_on()
    else:
        scene.etcd.start()
    scene.it.settle()
    scene.roles()
    scene.it.end()


@pytest.mark.slow
def test_a_leader_that_is_cut_from_etcd_makes_way(tmp_path: Path) -> None:
    """Nodes and users reach both directories all the time."""
    with apart(tmp_path) as (net, keeper, it, watcher):
        for _ in range(3):
            leader = watcher.leader(it.candidates)
            (other,) = [each for each in it.candidates if each is not leader]
            net.part(keeper, *[each for each in net.hosts if each is leader.place])
            began = time.monotonic()
            until(partial(watcher.leads, other.at), "the other leads")
            assert not watcher.leads(leader.at)
            it.settle()
            assert time.monotonic() - began < FAILOVER
            net.heal()
            it.settle()
        it.end()
        for each in it.candidates:
            os.kill(each.command.child.pid, signal.SIGTERM)


@pytest.mark.slow
def test_a_leader_whose_host_is_cut_off_makes_way(tmp_path: Path) -> None:
    """From etcd, nodes and users alike."""
    with apart(tmp_path) as (net, _keeper, it, watcher):
        for _ in range(2):
            leader = watcher.leader(it.candidates)
            began = time.monotonic()
            net.cut(*[each for each in net.hosts if each is leader.place])
            it.bear(1.0)
            it.settle()
            print(f"everything found by users {time.monotonic() - began:.2f} s after the cut")
            net.heal()
            it.settle()
        it.end()
