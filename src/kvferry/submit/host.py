"""The calling thread hands runs to streams; copy engines carry them out."""

from __future__ import annotations

from .._core import ABORTED, CopyEngines, Descriptors, Done
from .base import Slot, Submitter
from .slots import SlotPool

__all__ = ["HostSubmitter"]


class HostSubmitter(Submitter):
    """Cuts a batch into one run per stream, equal in bytes, each with its flag behind it.

    streams       a transfer, 1 to 8
    inline_below  bytes; smaller batches are copied by their caller, for whom waking a copy engine
                  would take longer
    """

    def __init__(
        self, engines: CopyEngines, slots: SlotPool, *, streams: int, inline_below: int
    ) -> None:
        self._copy_inline = engines.copy_inline
        self._wake = engines.wake
        self._slots = slots
        self._streams = streams
        self._inline_below = max(1, inline_below)  # an empty batch has no run for a stream

    def submit(
        self, op: int, d: Descriptors, done: Done, deadline: int | None, patient: bool = False
    ) -> Slot | None:
        if d.bytes < self._inline_below:
            self._copy_inline(op, d, done, deadline)
            return None
        runs = d.cut(self._streams)
        count = len(runs)
        slot = self.await_slot(count, done, deadline) if patient else self._slots.take(count)
        if slot is None:
            return None
        done.spread(len(runs))
        for word, (stream, run) in enumerate(zip(slot, runs, strict=True)):
            stream.copy(run, op, done)
            stream.flag(done, word, wake=word < len(runs) - 1)  # the last is the waiter's
        return slot

    def await_slot(self, streams: int, done: Done, deadline: int | None) -> Slot | None:
        """A slot by the deadline; None once `done` is aborted, and then over. Raises Timeout."""
        slot = self._slots.wait(streams, deadline, lambda: done.aborted)
        if slot is None:
            done.fail(ABORTED)
            done.finish(0)
        return slot

    def abort(self, done: Done) -> None:
        done.abort()
        self._wake()  # what was never begun is dropped, and that completes it
        self._slots.stir()

    def wake(self) -> None:
        self._wake()

    def help(self, lent: Slot, done: Done, deadline: int | None) -> None:
        for stream in reversed(lent):  # engines begin with the first
            stream.help(done, deadline)

    def release(self, lent: Slot, failed: bool) -> None:
        if failed:
            self._slots.discard(lent)
        else:
            self._slots.give(lent)

    def close(self) -> None:
        """The slots are the engine's."""
