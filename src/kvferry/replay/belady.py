"""MIN: who is wanted again last leaves, or does not even come in. Nobody can hit more blocks.

Belady, A study of replacement algorithms for a virtual-storage computer (IBM Systems Journal 1966).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from .trace import Ints, Trace
from .walk import Served

__all__ = ["Belady"]

NEVER = 1 << 62
MOST_STALE = 8  # entries of the heap for each that counts, before it is made anew


class Belady:
    """Serves the requests of a trace in their order, tails first; knows what is to come."""

    def __init__(self, trace: Trace, capacity: int) -> None:
        self._capacity = capacity
        self._next = _next_uses(trace)
        self._wanted: dict[int, int] = {}  # of each block that is there, when it is used next
        self._heap: list[tuple[int, int]] = []  # (-when, block)
        self._at = 0

    def serve(self, blocks: Ints) -> Served:
        named = blocks.tolist()
        wanted = self._wanted
        prefix = next((at for at, block in enumerate(named) if block not in wanted), len(named))
        nexts = self._next[self._at : self._at + len(named)].tolist()
        self._at += len(named)
        hits = sum(map(self._turn, reversed(named), nexts))
        if len(self._heap) > MOST_STALE * (self._capacity + MOST_STALE):
            self._heap = [(-when, block) for block, when in wanted.items()]
            heapify(self._heap)
        return Served(prefix, hits)

    def _turn(self, block: int, when: int) -> bool:
        """Whether it was there. Only who is wanted again stays."""
        hit = self._wanted.pop(block, None) is not None
        if when < NEVER:
            self._wanted[block] = when
            heappush(self._heap, (-when, block))
            while len(self._wanted) > self._capacity:
                last, leaver = heappop(self._heap)
                if self._wanted.get(leaver) == -last:
                    del self._wanted[leaver]
        return hit


def _next_uses(trace: Trace) -> Ints:
    """Of each turn, requests in order and tails first, the next turn of the same block."""
    turns = _tails_first(trace)
    order = np.argsort(turns, kind="stable")
    same = turns[order[:-1]] == turns[order[1:]]
    found = np.full(len(turns), NEVER, np.int64)
    found[order[:-1][same]] = order[1:][same]
    return found


def _tails_first(trace: Trace) -> Ints:
    ends = np.repeat(trace.starts[1:], trace.lengths)
    begins = np.repeat(trace.starts[:-1], trace.lengths)
    turns: Ints = trace.blocks[begins + ends - 1 - np.arange(len(trace.blocks))]
    return turns
