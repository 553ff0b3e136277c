"""Which objects the calls of a pass are about. Pure.

Object n is made of block n % total of a side of `total` blocks, so whoever reads it knows what it
holds. Objects below `kept` are there to be read; what is put has numbers above, never used again:

    reads   number: where the walk through all that is kept stands half of it later, slot: here
    puts    number: (era, round of the walk) * total + slot
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..layouts import Ids, plain
from ..walk import PASS_BYTES, Walk, walk_passes
from .tasks import Op, Task

__all__ = ["Calls", "Ground", "keeping", "passes"]

MOST_CALLS = 256  # a pass
MOST_KEPT = 1 << 16
ERA = 1 << 20  # rounds
NEVER = 1 << 40  # rounds that no era has


class Calls(NamedTuple):
    """Calls of `batch` objects each: object numbers[i], from or to block slots[i] of a side."""

    op: Op
    block: int
    batch: int
    total: int
    numbers: Ids
    slots: Ids

    @property
    def sources(self) -> Ids:
        """Of which block each object was made."""
        return self.numbers % self.total

    @property
    def absent(self) -> Calls:
        """The same about objects that there never were."""
        return self._replace(numbers=self.numbers + NEVER * self.total)

    @property
    def bytes(self) -> int:
        return len(self.numbers) * self.block


class Ground(NamedTuple):
    """total  blocks of a side
    kept   objects, to be read
    """

    block: int
    total: int
    kept: int

    @classmethod
    def of(cls, block: int, size: int) -> Ground:
        total = size // block
        return cls(block, total, min(total, MOST_KEPT))


def keeping(ground: Ground, batch: int) -> Iterator[Calls]:
    """Puts of all that is kept."""
    for at in range(0, ground.kept, batch):
        ids = np.arange(at, min(at + batch, ground.kept))
        yield Calls(Op.PUT_BATCH, ground.block, batch, ground.total, ids, ids)


def passes(task: Task, ground: Ground, era: int) -> Iterator[Calls]:
    """Endless. Puts of different eras are of different objects."""
    walk = Walk(plain(ground.block), ground.kept)
    batch = min(task.batch, ground.kept)
    most = min(ground.kept, PASS_BYTES // ground.block) // batch
    for steps in walk_passes(batch, max(1, min(most, MOST_CALLS))):
        taken = np.concatenate(steps)
        (move,) = walk.moves(taken)
        slots, numbers = move.local, move.remote
        if task.puts:
            rounds = (era + 1) * ERA + taken // ground.kept
            numbers = rounds * ground.total + slots
        yield Calls(task.op, ground.block, batch, ground.total, numbers, slots)
