"""A user garbles all memory that it may write to: whoever else works sees nothing of it."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from kvferry.store import Store
from kvferry.testing import spawn
from kvferry.testing.process import Parent
from tests.store.faults.actor import FAR, Actor
from tests.store.faults.keeper import Keeper
from tests.store.faults.load import ALL, Load

KIB = 1 << 10
GOOD = {"STORED", "PRESENT", "there", "absent", "present", "True", "False", "Full: leased"}


def garbles(parent: Parent, address: str, seed: int) -> None:
    """Random words, or small ones, over its lines, its desk and the bell, while it is a user too:
    whatever its own calls answer. Ends with its process."""
    store = Store(address)
    home: Any = store._own.home
    mine, bell = home._kept[3], home._kept[2]
    targets = [np.frombuffer(held._export, np.uint8) for held in (mine, bell)]
    assert all(len(each) for each in targets)
    draw = np.random.default_rng(seed)
    Load(store, "load", 32, 16 * KIB, 1, ALL)
    stop = threading.Event()

    def garble() -> None:
        while not stop.is_set():
            for target in targets:
                words = target[: len(target) // 8 * 8].view(np.uint64)
                start = int(draw.integers(len(words)))
                part = words[start : start + int(draw.integers(1, 4096))]
                most = int(draw.choice([2, 8, 1 << 12, 1 << 32, 1 << 63]))
                part[:] = draw.integers(0, most, len(part), np.uint64)

    threading.Thread(target=garble, daemon=True).start()
    parent.tell("begun")
    parent.hear(timeout=None)
    stop.set()


@pytest.mark.parametrize(
    ("seeds", "seconds"), [(1, 1.0), pytest.param(6, 5.0, marks=pytest.mark.slow)]
)
def test_others_are_unharmed(keeper: Keeper, seeds: int, seconds: float) -> None:
    with Actor(keeper) as near, Actor(keeper, FAR) as far:
        for seed in range(seeds):
            with spawn(garbles, keeper.unix, seed) as hostile:
                hostile.hear()
                for user in (near, far):
                    user.load("load", 32, 16 * KIB)
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    for user in (near, far):
                        ends = user.until_ends("put", "get", "view")
                        bad = {each for each in ends if each.partition(" ")[2] not in GOOD}
                        assert not bad, bad
                    keeper.look()
                for user in (near, far):
                    user.load_end()
                assert near.refill(f"seed-{seed}", 2) > 0
                hostile.kill()
            keeper.settled(users=2)
            assert near.refill(f"again-{seed}", 2) > 0
