"""Policies on requests that were really made: the very hits of their naive twins.

The folder with the traces is named by the variable TRACES; without it these tests are skipped.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry.store.policies import Lru, Policy, S3Fifo, Slots
from tests.store.policies.naive import NaiveLru, NaiveS3Fifo

TRACES = Path(os.environ.get("TRACES", "/nowhere"))
SPREAD = 0x9E3779B97F4A7C15

# Block hit ratios of LRU on the conversation trace, from libcachesim 0.3.5.
CONVERSATION = {1000: 0.0445, 5860: 0.1354, 10000: 0.2111, 30000: 0.3257}


def lines(name: str) -> Iterator[Any]:
    if not (TRACES / name).exists():
        pytest.skip(f"no {name} in the folder that TRACES names")
    with gzip.open(TRACES / name, "rt") as file:
        yield from map(json.loads, file)


def conversation() -> Iterator[list[int]]:
    for request in lines("conversation.jsonl.gz"):
        yield request["hash_ids"]


def agentic() -> Iterator[list[int]]:
    """Blocks of each request: the first of those before it, and runs of new ones."""
    for number, one in enumerate(lines("agentic.delta.jsonl.gz")):
        blocks: list[int] = []
        for *_, keep, runs in one["reqs"]:
            fresh = (at for start, count in runs for at in range(start, start + count))
            blocks = [*blocks[:keep], *(number << 32 | block for block in fresh)]
            yield list(dict.fromkeys(blocks))


def nobody(asked: Slots) -> NDArray[np.bool_]:
    return np.zeros(len(asked), np.bool_)


class Cache:
    """Blocks of one size: a request uses those that are there, then brings the others in."""

    def __init__(self, policy: Policy, capacity: int) -> None:
        self.policy = policy
        self.slots: dict[int, int] = {}
        self.blocks = [0] * capacity
        self.free = list(range(capacity))

    def request(self, blocks: list[int]) -> int:
        hits = [self.slots[block] for block in blocks if block in self.slots]
        misses = [block for block in blocks if block not in self.slots][: len(self.blocks)]
        self.policy.touch(np.array(hits, np.int64))
        for slot in self.policy.victims(len(misses) - len(self.free), nobody).tolist():
            del self.slots[self.blocks[slot]]
            self.free.append(slot)
        fresh = [self.free.pop() for _ in misses]
        for block, slot in zip(misses, fresh, strict=True):
            self.blocks[slot], self.slots[block] = block, slot
        prints = np.array([(block + 1) * SPREAD % (1 << 64) for block in misses], np.uint64)
        self.policy.insert(np.array(fresh, np.int64), np.ones(len(fresh), np.int64), prints)
        return len(hits)


class NaiveCache:
    """The same, by blocks instead of slots."""

    def __init__(self, policy: Any, capacity: int) -> None:
        self.policy, self.capacity, self.there = policy, capacity, set[int]()

    def request(self, blocks: list[int]) -> int:
        hits = [block for block in blocks if block in self.there]
        misses = [block for block in blocks if block not in self.there][: self.capacity]
        for block in hits:
            self.policy.touch(block)
        needed = len(misses) - (self.capacity - len(self.there))
        self.there.difference_update(self.policy.victims(needed, lambda block: False))
        for block in misses:
            self.policy.insert(block, 1, block, block)
        self.there.update(misses)
        return len(hits)


def replay(cache: Any, requests: Iterator[list[int]]) -> tuple[int, int]:
    """Hits, and blocks asked for."""
    hits = asked = 0
    for blocks in requests:
        hits += cache.request(blocks)
        asked += len(blocks)
    return hits, asked


@pytest.mark.parametrize("trace", [conversation, agentic])
def test_lru_hits_what_a_plain_simulator_hits(trace: Any) -> None:
    ours = replay(Cache(Lru(2000), 2000), islice(trace(), 1000))
    assert ours == replay(NaiveCache(NaiveLru(), 2000), islice(trace(), 1000))


@pytest.mark.parametrize("trace", [conversation, agentic])
def test_s3fifo_hits_what_a_plain_simulator_hits(trace: Any) -> None:
    ours = replay(Cache(S3Fifo(400), 400), islice(trace(), 300))
    assert ours == replay(NaiveCache(NaiveS3Fifo(), 400), islice(trace(), 300))


@pytest.mark.slow
@pytest.mark.parametrize("capacity", CONVERSATION)
def test_lru_hits_what_others_publish(capacity: int) -> None:
    hits, asked = replay(Cache(Lru(capacity), capacity), conversation())
    assert (hits, asked) == replay(NaiveCache(NaiveLru(), capacity), conversation())
    assert hits / asked == pytest.approx(CONVERSATION[capacity], abs=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [10_000, 100_000])
def test_lru_on_all_of_the_agents(capacity: int) -> None:
    ours = replay(Cache(Lru(capacity), capacity), islice(agentic(), 6000))
    assert ours == replay(NaiveCache(NaiveLru(), capacity), islice(agentic(), 6000))
