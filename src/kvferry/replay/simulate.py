"""How often a trace hits, by policy and capacity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..store.policies import POLICIES
from .belady import Belady
from .cache import Cache, Together
from .lfu import Lfu
from .listed import PublishedS3Fifo
from .trace import Ints, Trace
from .walk import Served, serve

__all__ = ["KNOWN", "Hits", "Ratios", "checked_policy", "ideal", "simulate"]

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # makes prints of numbers

HEAD_FIRST = {"prefix"}  # policies that are told parents, which have to be there before
COMPARED = ("s3fifo-listed", "lfu", "min")  # no node has these

KNOWN = (*POLICIES, *COMPARED)

Serve = Callable[[Ints], Served]


class Ratios(NamedTuple):
    """Shares of what was asked for.

    prefix  blocks that were there, and all before them in the request: what an engine can use
    block   blocks that were there
    token   tokens of the leading blocks that were there
    """

    prefix: float
    block: float
    token: float


@dataclass(frozen=True)
class Hits:
    """What a trace hit, a row a request: leading blocks, and blocks in all."""

    policy: str
    capacity: int
    prefix: Ints
    block: Ints

    def ratios(self, trace: Trace) -> Ratios:
        blocks, tokens = max(len(trace.blocks), 1), max(int(trace.inputs.sum()), 1)
        return Ratios(
            int(self.prefix.sum()) / blocks,
            int(self.block.sum()) / blocks,
            int(trace.tokens(self.prefix).sum()) / tokens,
        )


def checked_policy(name: str) -> str:
    if name not in KNOWN:
        raise UsageError(f"policy {name!r} is not one of {', '.join(KNOWN)}", cause="policy")
    return name


def simulate(
    trace: Trace, policy: str, capacity: int, tick: Callable[[int], None] = lambda count: None
) -> Hits:
    """What the trace hits in a cache of so many blocks. `tick` learns of requests served.

    The store's own policies, one of KNOWN. Requests are served one after the other, see `serve`.
    Raises UsageError: no such policy (policy), no capacity (capacity), no blocks (no_blocks).
    """
    if not trace.block_tokens:
        text = f"the format {trace.format} does not say which blocks a prompt has: no hits to count"
        raise UsageError(text, cause="no_blocks")
    if capacity <= 0:
        raise UsageError(f"a capacity of {capacity} blocks is none", cause="capacity")
    server = _server(trace, checked_policy(policy), capacity)
    served = np.empty((len(trace), 2), np.int64)
    for request in range(len(trace)):
        served[request] = server(trace.of(request))
        tick(1)
    return Hits(policy, capacity, served[:, 0], served[:, 1])


def ideal(trace: Trace) -> Hits:
    """What it would hit if nothing ever left."""
    return simulate(trace, "lru", max(trace.unique, 1))


def _server(trace: Trace, policy: str, capacity: int) -> Serve:
    if policy == "min":
        return Belady(trace, capacity).serve
    cache = _cache(trace, policy, min(capacity, max(trace.unique, 1)))
    return partial(serve, cache, head_first=policy in HEAD_FIRST)


def _cache(trace: Trace, policy: str, capacity: int) -> Cache:
    numbers = np.arange(trace.unique, dtype=np.uint64)
    prints: NDArray[np.uint64] = (numbers + np.uint64(1)) * SPREAD
    parents = trace.parents()
    if policy == "s3fifo-listed":
        listed = PublishedS3Fifo(capacity, trace.unique)
        return Cache(listed, numbers, parents, listed.together)
    if policy == "lfu":
        lfu = Lfu(capacity)
        return Cache(lfu, prints, parents, _as_many(lfu))
    return Cache(POLICIES[policy](capacity), prints, parents)


def _as_many(lfu: Lfu) -> Together:
    """While as many as come were used once, newcomers do not see each other off."""
    return lambda prints: min(len(prints), max(lfu.once, 1))
