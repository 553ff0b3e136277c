"""A node that is killed at work and begins again on its folder: no value is older than what users
were told last, and none is torn.

Each key is of one thread, which knows what a reader may find of it: nothing, at any time; a version
whose put was answered, until its removal is; one whose put was not answered.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvferry.errors import Error
from kvferry.store import Store
from tests.store.faults.keeper import Keeper
from tests.store.faults.values import LEAST, value, version_of
from tests.store.ssd.tiers import MIB, until

THREADS = 4
KEYS = 10  # of each thread
LARGEST = 80_000


class Owner(threading.Thread):
    """Puts, reads and removes keys of its own, until it is told to end."""

    def __init__(self, store: Store, number: int) -> None:
        super().__init__(daemon=True)
        self.store = store
        self.random = np.random.default_rng(number)
        self.allowed: dict[str, set[int]] = {f"{number} {at}": set() for at in range(KEYS)}
        self.wrong: list[str] = []
        self.over = threading.Event()
        self.stored = self.version = 0

    def run(self) -> None:
        while not self.over.is_set() and not self.wrong:
            key = f"{self.random.choice(list(self.allowed))}"
            try:
                (self.look, self.put, self.put, self.remove)[int(self.random.integers(4))](key)
            except Error:  # the node is gone
                self.over.wait(0.02)
            except AssertionError as error:
                self.wrong.append(str(error))

    def look(self, key: str) -> None:
        found = self.store.get(key)
        if found is not None:
            version = version_of(key, found)
            assert version in self.allowed[key], f"{key}: {version}, not of {self.allowed[key]}"

    def put(self, key: str) -> None:
        self.version += 1
        self.allowed[key].add(self.version)
        size = int(self.random.integers(LEAST, LARGEST))
        if self.store.put(key, value(key, self.version, size)).name == "STORED":
            self.allowed[key] = {self.version}
            self.stored += 1

    def remove(self, key: str) -> None:
        self.store.remove(key)
        self.allowed[key] = set()

    def look_at_all(self) -> int:
        """How many are there."""
        for key in self.allowed:
            self.look(key)
        return sum(self.store.exists(key) for key in self.allowed)


@pytest.fixture
def addresses(folder: Path) -> list[str]:
    return [f"unix://{folder}/node", "127.0.0.1:0"]


def kill_again_and_again(folder: Path, addresses: list[str], rounds: int) -> None:
    random = np.random.default_rng(rounds)
    disk = str(folder / "ssd"), 4 * MIB
    wanted: dict[str, Any] = {"size": MIB, "ssd": disk}
    with Keeper(addresses, **wanted) as keeper, Store(keeper.unix) as user:
        owners = [Owner(user, number) for number in range(THREADS)]
        for owner in owners:
            owner.start()
        try:
            for _ in range(rounds):
                before = sum(owner.stored for owner in owners)
                until(partial(_stored, owners, before + 20))
                time.sleep(random.uniform(0, 0.1))
                keeper.kill()
                keeper.start()
                assert [owner.wrong for owner in owners] == [[]] * THREADS
            until(lambda: _reached(user))
        finally:
            for owner in owners:
                owner.over.set()
            for owner in owners:
                owner.join()
        assert [owner.wrong for owner in owners] == [[]] * THREADS
        keeper.kill()
        keeper.start()
        until(lambda: _reached(user))
        assert sum(owner.look_at_all() for owner in owners) > 0
        user.close()


def _stored(owners: list[Owner], count: int) -> bool:
    return sum(owner.stored for owner in owners) > count


def _reached(user: Store) -> bool:
    try:
        return bool(user.stats())
    except Error:
        return False


def test_killed_at_work(folder: Path, addresses: list[str]) -> None:
    kill_again_and_again(folder, addresses, rounds=2)


@pytest.mark.slow
def test_killed_at_work_in_full(folder: Path, addresses: list[str]) -> None:
    kill_again_and_again(folder, addresses, rounds=40)
