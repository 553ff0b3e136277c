"""The node is killed, stands still, is ended, while users work."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvferry.testing.faults.party import until
from tests.store.faults.actor import FAR, MAPPED, Actor
from tests.store.faults.keeper import Keeper

KIB, MIB = 1 << 10, 1 << 20
NOTICED = 5.0  # seconds until a call ends whose node was killed; its own timeout is twice that


@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_killed_under_load(keeper: Keeper, rounds: int) -> None:
    with Actor(keeper) as near, Actor(keeper, FAR) as far:
        users = (near, far)
        assert near.put("old", 1, 64 * KIB) == "STORED"
        for user in users:
            user.load("load", 64, 32 * KIB)
        for round_ in range(rounds):
            for user in users:
                user.until_ends("put STORED", "get there")
            if not round_:
                assert near.hold_view("old") == 1
            keeper.kill()
            for user in users:
                user.until_ends("put PeerError", "get PeerError: node_gone")
                assert user.why("old") == "NODE_GONE"
            assert near.check_views() == 1
            keeper.start()
            for user in users:
                user.until_ends("put STORED", "get there")
                assert user.get("old") is None
                assert user.why("old") == "NEVER"
        for user in users:
            slowest = user.load_end()
            assert max(slowest.values()) < NOTICED, slowest
        assert near.check_views() == 1
        assert keeper.look()["users"] == 2


@pytest.mark.parametrize("way", [MAPPED, pytest.param(FAR, marks=pytest.mark.slow)])
def test_killed_while_a_put_waits(keeper: Keeper, way: str) -> None:
    """It is noticed, long before the call's own timeout."""
    with Actor(keeper, way) as user:
        user.brake("written")
        user.begin("put", "k", 1, 64 * KIB)
        user.reach()
        keeper.child.stop()
        user.go()
        if way == MAPPED:
            user.posted()
        began = time.monotonic()
        keeper.kill()
        assert user.end().startswith("PeerError")
        assert time.monotonic() - began < NOTICED
        keeper.start()
        assert user.get("k") is None
        assert user.put("k", 2, 64 * KIB) == "STORED"


def test_stands_still(keeper: Keeper) -> None:
    with Actor(keeper, call_timeout=0.5) as near, Actor(keeper, FAR, call_timeout=0.5) as far:
        for user in (near, far):
            assert user.put(f"before-{user.way}", 1, 64 * KIB) == "STORED"
            user.load(user.way, 16, 32 * KIB, 2, ["get", "view", "get_into"])
        keeper.child.stop()
        near.load_look()
        near.until_ends("get absent", "view absent")
        assert near.get("before-far") == 1
        for user in (near, far):
            began = time.monotonic()
            assert user.put("twice", 1, 64 * KIB).startswith("Timeout")
            assert time.monotonic() - began < NOTICED
            user.begin("put", "twice", 2, 64 * KIB)
        keeper.child.resume()
        ends = {user.end().split(":")[0] for user in (near, far)}
        assert ends <= {"STORED", "PRESENT", "Timeout"}, ends
        for user in (near, far):
            assert user.put("twice", 3, 64 * KIB) in ("STORED", "PRESENT")
        assert near.get("twice") == far.get("twice")
        assert keeper.look()["count"] == 3
        for user in (near, far):
            user.load_end()


@pytest.mark.slow
def test_stands_still_in_mid_read(addresses: list[str]) -> None:
    with (
        Keeper(addresses, size=16 * MIB) as keeper,
        Actor(keeper) as near,
        Actor(keeper, FAR, call_timeout=0.5) as far,
    ):
        far.shorten_leases(0.5)
        assert near.put("large", 1, 8 * MIB) == "STORED"
        far.hold(True, 2)
        far.begin("get", "large")
        far.held()
        keeper.child.stop()
        began = time.monotonic()
        far.hold(False)
        assert far.end() in ("PeerError: node_gone", "PeerError: changing", 1)
        assert time.monotonic() - began < NOTICED
        keeper.child.resume()
        assert far.get("large") == 1


class Program:
    """`kvferry node`, at an address. Ends with its block."""

    def __init__(self, at: Path, grace: float) -> None:
        self.unix = f"unix://{at}"
        self.options: dict[str, float] = {}
        command = [sys.executable, "-c", "from kvferry.cli import main; main()", "node"]
        command += ["--dram", "4MiB", "--listen", self.unix, "--listen", "127.0.0.1:0"]
        command += ["--grace", str(grace)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:\d+", said)
        assert found, said
        self.tcp = f"kv://{found[0]}"

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def socket_file(folder: Path) -> Iterator[Path]:
    yield folder / "node"
    assert not (folder / "node").exists()


def test_is_ended(socket_file: Path) -> None:
    with Program(socket_file, grace=30.0) as node, Actor(node) as near, Actor(node, FAR) as far:
        for user in (near, far):
            assert user.put(user.way, 1, 64 * KIB) == "STORED"
        assert near.hold_view("mapped") == 1
        assert far.lease(["far"], 20.0) == 1
        node.end()
        while near.put("new", 1, KIB) != "Full: draining":
            near.remove("new")
        assert far.put("new", 1, KIB) == "Full: draining"
        assert near.get("far") == far.get("far") == 1  # it has a lease
        until(lambda: near.get("mapped") is None, "it leaves")
        assert near.why("mapped") == "DRAINED"
        assert near.check_views() == 1
        assert node.process.poll() is None
        far.release()
        assert far.get("nothing") is None  # gives what its reads kept back, too
        assert node.process.poll() is None  # somebody reads
        near.let_views()
        assert node.process.wait(10.0) == 0
        for user in (near, far):
            assert user.get("far") == "PeerError: node_gone"
            assert user.put("new", 1, KIB).startswith("PeerError")
            assert user.why("far") == "NODE_GONE"


@pytest.mark.parametrize("grace", [0.5, pytest.param(0.0, marks=pytest.mark.slow)])
def test_is_ended_and_waits_no_longer(socket_file: Path, grace: float) -> None:
    with Program(socket_file, grace=grace) as node, Actor(node) as near, Actor(node, FAR) as far:
        assert near.put("k", 1, 64 * KIB) == "STORED"
        assert near.hold_view("k") == 1
        assert far.lease(["k"], 50.0) == 1
        for user in (near, far):
            user.load("load", 16, 32 * KIB)
        began = time.monotonic()
        node.end()
        assert node.process.wait(10.0) == 0
        assert grace <= time.monotonic() - began < grace + NOTICED
        for user in (near, far):
            user.until_ends("put PeerError", "get PeerError: node_gone")
            user.load_end()
        assert near.check_views() == 1
        assert not os.path.exists(socket_file)
