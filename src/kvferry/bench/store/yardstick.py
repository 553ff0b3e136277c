"""What the machine and the tcp link reach alone, with blocks of the same size, in the same run."""

from __future__ import annotations

from collections.abc import Callable

from ..cases import Case
from ..lane import Lane
from ..layouts import plain
from ..limit import Limit
from ..session import Session
from ..timing import timed

__all__ = ["COPY", "LINK", "Yardstick"]

FABRIC, TCP = "fabric/inline", "tcp/host"
COPY, LINK = "copy loop", "tcp link"

Passing = Callable[[], float]  # a pass: GB/s


class Yardstick:
    """Reads of blocks: by a bare copy loop where they are mapped, by the link where they are not.
    `streams`: that the link cuts a transfer over. Close it."""

    def __init__(self, session: Session, streams: int) -> None:
        self._session = session
        self._streams = streams
        self._limit = Limit(session.size)

    def passes(self, name: str, block: int, batch: int) -> Passing:
        """To be called again and again. Raises PathRefused where this machine has no such path."""
        slots = self._session.size // block
        path, streams = (TCP, self._streams) if name == LINK else (FABRIC, 1)
        case = Case(path, "read", plain(block), slots, min(batch, slots // 2), streams, None)
        lane = Lane(case, self._session)
        self._session.overwritten(ours=True)
        ready = self._link(lane) if name == LINK else self._copy(lane)
        ready()  # not counted: it finds caches and page tables cold
        return ready

    def close(self) -> None:
        self._limit.close()

    def _copy(self, lane: Lane) -> Passing:
        moves = map(lane.moves, lane.case.passes())
        variant = self._limit.best(lane.case, "read", lane.at, moves, 1)

        def go() -> float:
            taken = next(moves)
            seconds = self._limit.copy(variant, "read", lane.at, taken, 1)
            return sum(each.bytes for each in taken) / seconds / 1e9

        return go

    def _link(self, lane: Lane) -> Passing:
        passes = lane.case.passes()
        return lambda: timed(lane.call, lane.batches(next(passes))).gbps
