"""Blocks of one size in a policy: what a store would hold, without a byte."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..store.policies import Policy, Slots
from .trace import Ints

__all__ = ["Cache", "Together"]

# How many of these newcomers, from the first on, the policy takes at once as it would one by one.
Together = Callable[[NDArray[np.uint64]], int]

NOWHERE = -1


class Cache:
    """A holder of up to `policy.slots` blocks.

    slot     where each block is, NOWHERE: not there         by block, `unique` of them
    block    what is at each slot
    free     slots of nothing; the first `spare` of them count
    prints   by which the policy knows a block again         by block
    parents  Trace.parents                                   by block
    """

    def __init__(
        self, policy: Policy, prints: NDArray[np.uint64], parents: Ints, together: Together = len
    ) -> None:
        self._policy = policy
        self._prints = prints
        self._parents = parents
        self._together = together
        self._slot = np.full(len(prints), NOWHERE, np.int64)
        self._block = np.zeros(policy.slots, np.int64)
        self._free = np.arange(policy.slots)[::-1].copy()
        self._spare = policy.slots
        self._ones = np.ones(policy.slots, np.int64)

    def there(self, blocks: Ints) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self._slot[blocks] >= 0
        return found

    def use(self, blocks: Ints) -> None:
        self._policy.touch(self._slot[blocks])

    def admit(self, blocks: Ints) -> int:
        blocks = blocks[: self._spare or self._policy.slots]
        prints = self._prints[blocks]
        if not self._spare:
            prints = prints[: self._together(prints)]
            blocks = blocks[: len(prints)]
            self._see_off(len(blocks))
        slots = self._take(blocks)
        above = self._slot[self._parents[blocks]]
        parents = np.where(above >= 0, above, slots)
        self._policy.insert(slots, self._ones[: len(slots)], prints, parents)
        return len(blocks)

    def _see_off(self, count: int) -> None:
        slots = self._policy.victims(count, _nobody)
        self._slot[self._block[slots]] = NOWHERE
        self._free[: len(slots)] = slots
        self._spare = len(slots)

    def _take(self, blocks: Ints) -> Slots:
        self._spare -= len(blocks)
        slots = self._free[self._spare : self._spare + len(blocks)].copy()
        self._slot[blocks] = slots
        self._block[slots] = blocks
        return slots


def _nobody(slots: Slots) -> NDArray[np.bool_]:
    return np.zeros(len(slots), np.bool_)
