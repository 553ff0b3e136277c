"""Readers and writers in several processes on a tiny pool, where objects leave all the time."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from tests.store.faults.actor import FAR, MAPPED, Actor
from tests.store.faults.keeper import Keeper

KIB, MIB = 1 << 10, 1 << 20
READS = ["get", "get", "get_into", "view", "get_batch"]
WRITES = ["put", "put", "put_batch", "remove", "get"]


SHORT, LONG = 0.7, 20.0
CASES = [
    ("s3fifo", SHORT),
    ("prefix", SHORT),
    *(pytest.param(each, LONG, marks=pytest.mark.slow) for each in ("lru", "s3fifo", "prefix")),
]


@pytest.mark.parametrize(("policy", "seconds"), CASES)
def test_every_value_is_whole(addresses: list[str], policy: str, seconds: float) -> None:
    ways = [MAPPED, MAPPED, FAR] if seconds > 1 else [MAPPED]
    with (
        Keeper(addresses, size=2 * MIB, policy=policy) as node,
        ExitStack() as users,
    ):
        readers = [users.enter_context(Actor(node, way)) for way in ways]
        writers = [users.enter_context(Actor(node, way)) for way in ways]
        for user in writers:
            user.load("k", 80, 96 * KIB, 2, WRITES)
        for user in readers:
            user.load("k", 80, 96 * KIB, 2, READS)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)
            node.look()
        for user in readers:
            ends = user.until_ends("get there", "get absent", "view there")
            bad = {each for each in ends if ":" in each and "Full: busy" not in each}
            assert not bad, bad
        for user in writers:
            user.until_ends("put STORED")
        for user in (*readers, *writers):
            assert max(user.load_end().values()) < 10.0
        assert writers[0].why("k-0") in ("PRESENT", "NEVER", "EVICTED", "REMOVED", "REFUSED")
