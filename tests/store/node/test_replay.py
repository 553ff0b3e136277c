"""Requests replayed through a real node hit as often as its policy does alone.

What readers note of their touches may be lost, and a user's extents lie idle in its stock: both may
cost a little recency, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import pytest

from kvferry.store import Answer, Limits, Lru, Policy, S3Fifo, Store
from kvferry.store.policies import POLICIES
from tests.store.policies.test_traces import Cache, conversation

BLOCK = 64  # bytes: the smallest extent
CLOSE = 0.01
ONLY_ON_DEMAND = Limits(high=1.0, low=1.0)


def skewed(requests: int) -> Iterator[list[int]]:
    """Some blocks are wanted again and again, and a window moves over all."""
    draw = np.random.default_rng(11)
    for number in range(requests):
        often = draw.zipf(1.2, 12) % 3000
        yield list(dict.fromkeys([*often.tolist(), *range(4000 + 3 * number, 4008 + 3 * number)]))


def value(block: int) -> bytes:
    return block.to_bytes(8, "little") * (BLOCK // 8)


def through_a_node(requests: Iterable[list[int]], policy: str, blocks: int) -> float:
    hits = asked = 0
    size = max(blocks * BLOCK, 4096)
    with Store(size=size, policy=policy, objects=2 * blocks, limits=ONLY_ON_DEMAND) as store:
        outs = [bytearray(BLOCK) for _ in range(4096)]
        for request in requests:
            keys = [f"{block}" for block in request]
            found = store.get_batch_into(keys, outs[: len(keys)]).codes == Answer.FOUND
            there = np.flatnonzero(found).tolist()
            assert all(outs[at] == value(request[at]) for at in there)
            missing = np.flatnonzero(~found).tolist()[:blocks]
            if missing:
                store.put_batch(
                    [keys[at] for at in missing], [value(request[at]) for at in missing]
                )
            hits, asked = hits + len(there), asked + len(keys)
    return hits / asked


def by_policy_alone(requests: Iterable[list[int]], policy: type[Policy], blocks: int) -> float:
    cache, hits, asked = Cache(policy(blocks), blocks), 0, 0
    for request in requests:
        hits, asked = hits + cache.request(request), asked + len(request)
    return hits / asked


@pytest.mark.parametrize("policy", ["lru", "s3fifo"])
def test_skewed_requests_hit_as_often(policy: str) -> None:
    real = through_a_node(skewed(1500), policy, 2000)
    alone = by_policy_alone(skewed(1500), POLICIES[policy], 2000)
    assert alone > 0.3
    assert abs(real - alone) <= CLOSE


@pytest.mark.parametrize("blocks", [1000, 5860])
def test_conversation_hits_as_often(blocks: int) -> None:
    real = through_a_node(islice(conversation(), 3000), "lru", blocks)
    alone = by_policy_alone(islice(conversation(), 3000), Lru, blocks)
    assert abs(real - alone) <= CLOSE


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Lru, S3Fifo])
@pytest.mark.parametrize("blocks", [1000, 5860, 10000, 30000])
def test_whole_conversation(policy: type[Policy], blocks: int) -> None:
    name = next(name for name, each in POLICIES.items() if each is policy)
    real = through_a_node(conversation(), name, blocks)
    assert abs(real - by_policy_alone(conversation(), policy, blocks)) <= CLOSE
