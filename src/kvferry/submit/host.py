"""The calling thread hands runs to streams; copy engines carry them out."""

from __future__ import annotations

from .._core import CopyEngines, Descriptors, Done
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

    def submit(self, op: int, d: Descriptors, done: Done, deadline: int | None) -> Slot | None:
        if d.bytes < self._inline_below:
            self._copy_inline(op, d, done, deadline)
            return None
        runs = d.cut(self._streams)
        slot = self._slots.take(len(runs))
        done.spread(len(runs))
        for word, (stream, run) in enumerate(zip(slot, runs, strict=True)):
            stream.copy(run, op, done)
            stream.flag(done, word, wake=word < len(runs) - 1)  # the last is the waiter's
        return slot

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
