"""One case on its channel: turns steps of the walk into blocks, batches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from ..batch import Batch
from ..engine import Report
from ..memory import Region, RemoteRegion
from .cases import Case
from .layouts import Ids
from .session import Session
from .shares import Share
from .sides import Side
from .target import REGION
from .verify import Landing, Verdict
from .walk import Move, Walk, join
from .yardsticks import Reach

__all__ = ["Lane", "batch_of"]


class Lane:
    """channel  that the case asks for
    writes   is the other side the destination?
    call     moves one batch in the direction of the case, and blocks
    at       where both sides are
    """

    def __init__(self, case: Case, session: Session) -> None:
        self.case = case
        self.writes = case.op == "write"
        self.session = session
        self.channel = session.channel(case.path, case.streams)
        self.call: Callable[[Batch], Report] = (
            self.channel.write if self.writes else self.channel.read
        )
        self._theirs = self.channel.regions[REGION]
        self._walk = Walk(case.layout, case.slots)

    @cached_property
    def at(self) -> Reach:
        return self.session.reach(self.channel)

    def moves(self, steps: list[Ids]) -> list[Move]:
        """A pass as a whole."""
        return self._walk.moves(join(steps))

    def batches(self, steps: list[Ids]) -> list[Batch]:
        """A pass batch by batch."""
        session, walk = self.session, self._walk
        return [batch_of(session.region, self._theirs, walk.moves(s), session.share) for s in steps]

    def poison(self) -> int:
        """The destination holds poison now, the source the pattern of the number returned."""
        seed = self.session.pattern(self.writes, self.channel)
        self.session.overwritten(not self.writes)
        self._destination().poison()
        return seed

    def check(self, seed: int, steps: list[Ids]) -> Verdict:
        """Compare every byte where the blocks of a pass, moved after poison, belong."""
        landings = [_landing(self.writes, move) for move in self.moves(steps)]
        return self._destination().check(landings, seed)

    def verify(self) -> Verdict:
        """Poison the destination, move one pass from this thread, compare every byte."""
        seed, steps = self.poison(), next(self.case.passes())
        for batch in self.batches(steps):
            self.call(batch)
        return self.check(seed, steps)

    def threads(self) -> int:
        """How many threads really copy when all callers call at once.

        One call tells how many streams it is cut over: small batches are copied by their caller,
        and over streams no more than the copy engines and the waiting callers carry them out.
        Starts what starts at first use.
        """
        (batch,) = self.batches([max(next(self.case.passes()), key=len)])
        streams = self.call(batch).stream_submissions
        if streams == 0:
            return self.case.threads
        hands = self.session.engine.options.copy_engines + self.case.threads
        return min(streams * self.case.threads, hands)

    def _destination(self) -> Side:
        return self.session.side(not self.writes, self.channel)


def batch_of(
    ours: Region, theirs: RemoteRegion, moves: Sequence[Move], share: Share | None = None
) -> Batch:
    """One batch of all blocks of `moves`, in their order, within a share of both regions."""
    local_at, remote_at = (share.local_at, share.remote_at) if share else (0, 0)
    if len(moves) == 1 and not local_at and not remote_at:
        (move,) = moves
        return Batch.blocks(ours, move.local, theirs, move.remote, move.block)
    return Batch.of(
        ours,
        theirs,
        local_offset=local_at + np.concatenate([m.base + m.local * m.block for m in moves]),
        remote_offset=remote_at + np.concatenate([m.base + m.remote * m.block for m in moves]),
        length=np.repeat([m.block for m in moves], [len(m.local) for m in moves]),
    )


def _landing(writes: bool, move: Move) -> Landing:
    to, source = (move.remote, move.local) if writes else (move.local, move.remote)
    return Landing(move.base, move.block, move.total, to.tobytes(), source.tobytes())
