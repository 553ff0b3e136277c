"""One case on its channel: turns steps of the walk into blocks, batches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..batch import Batch
from ..engine import Report
from ..memory import Region, RemoteRegion
from .cases import Case
from .layouts import Ids
from .limit import Mappings
from .session import Session
from .target import REGION
from .walk import Move, Walk, join

__all__ = ["Lane", "batch_of"]


class Lane:
    """channel  that the case asks for
    call     moves one batch in the direction of the case, and blocks
    at       where both sides are mapped
    """

    def __init__(self, case: Case, session: Session) -> None:
        self.case = case
        self.channel = session.channel(case.path, case.streams)
        self.call: Callable[[Batch], Report] = (
            self.channel.write if case.op == "write" else self.channel.read
        )
        self._ours = session.region
        self._theirs = self.channel.regions[REGION]
        self.at = Mappings(self._ours.address, self._theirs.span.here)
        self._walk = Walk(case.layout, case.slots)

    def moves(self, steps: list[Ids]) -> list[Move]:
        """A pass as a whole."""
        return self._walk.moves(join(steps))

    def batches(self, steps: list[Ids]) -> list[Batch]:
        """A pass batch by batch."""
        return [batch_of(self._ours, self._theirs, self._walk.moves(each)) for each in steps]

    def threads(self) -> int:
        """How many streams really copy, as one call tells: small batches are copied by their
        caller. Starts what starts at first use.
        """
        (batch,) = self.batches([max(next(self.case.passes()), key=len)])
        return max(1, self.call(batch).stream_submissions)


def batch_of(ours: Region, theirs: RemoteRegion, moves: Sequence[Move]) -> Batch:
    """One batch of all blocks of `moves`, in their order."""
    if len(moves) == 1:
        (move,) = moves
        return Batch.blocks(ours, move.local, theirs, move.remote, move.block)
    return Batch.of(
        ours,
        theirs,
        local_offset=np.concatenate([move.base + move.local * move.block for move in moves]),
        remote_offset=np.concatenate([move.base + move.remote * move.block for move in moves]),
        length=np.repeat([move.block for move in moves], [len(move.local) for move in moves]),
    )
