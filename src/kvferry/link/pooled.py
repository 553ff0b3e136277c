"""What links share whose streams are their own: lent by a pool, small batches by their caller."""

from __future__ import annotations

from .._core import CopyEngines, Descriptors, Done
from ..path import Path
from ..runtime import CallerStream
from ..submit import HostSubmitter, Slot, SlotPool
from .base import Peer
from .stream import StreamLink

__all__ = ["PooledLink"]


class PooledLink(StreamLink):
    """Cuts large batches over several streams of `slots`, all of which are CallerStreams.

    wide  bytes from which on a batch is cut
    """

    def __init__(
        self,
        peer: Peer,
        path: Path,
        engines: CopyEngines,
        slots: SlotPool,
        *,
        streams: int,
        wide: int,
        inline_below: int,
    ) -> None:
        def submitter(streams: int) -> HostSubmitter:
            return HostSubmitter(engines, slots, streams=streams, inline_below=0)

        super().__init__(peer, path, submitter(1))
        self._slots = slots
        self._wide = submitter(streams)
        self._wide_bytes = wide
        self._inline_below = inline_below

    def submit(
        self,
        op: int,
        d: Descriptors,
        done: Done,
        deadline: int | None = None,
        patient: bool = False,
    ) -> Slot | None:
        if patient and 0 < d.bytes < self._inline_below:
            return self.copy_inline(op, d, done, deadline, patient)
        submitter = self._wide if d.bytes >= self._wide_bytes else self._submitter
        return submitter.submit(op, d, done, deadline, patient)

    def copy_inline(
        self, op: int, d: Descriptors, done: Done, deadline: int | None, patient: bool
    ) -> Slot | None:
        """In the calling thread, which would wait anyway: no ring, no flag."""
        slot = self._wide.await_slot(1, done, deadline) if patient else self._slots.take(1)
        for stream in slot or ():
            assert isinstance(stream, CallerStream), "the pool has no others"
            stream.copy_inline(op, d, done, deadline)
        return slot

    def release(self, lent: Slot, failed: bool) -> None:
        """What is in step serves the next transfer, whatever this one came to: making another takes
        longer than many a timeout."""
        dead: Slot = [each for each in lent if isinstance(each, CallerStream) and each.dead]
        self._slots.discard(dead)
        self._slots.give([stream for stream in lent if stream not in dead])

    def close(self) -> None:
        self._slots.close()
