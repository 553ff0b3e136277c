"""Makes the submitters of one channel, from what its engine owns."""

from __future__ import annotations

from typing import NamedTuple

from .._core import LOGICAL_MOST, CopyEngines
from ..path import SubmitterKind
from ..runtime import HostControlStream
from .base import Submitter
from .coprocessor import CoprocessorSubmitter
from .host import HostSubmitter
from .inline import InlineSubmitter
from .pool import PoolSpec
from .slots import SlotPool

__all__ = ["Submitters"]


class Submitters(NamedTuple):
    """What the submitters of one channel are made with.

    slots                    streams for the transfers of all channels of the engine
    streams                  a transfer, 1 to 8
    inline_below             bytes; smaller batches are copied by their caller under a host path
    pool                     of a staging path
    max_transfers_per_batch  records of a coprocessor's logical batch, 1 to 1,920
    """

    engines: CopyEngines
    slots: SlotPool
    streams: int
    inline_below: int
    pool: PoolSpec = PoolSpec()
    max_transfers_per_batch: int = LOGICAL_MOST

    def make(self, kind: SubmitterKind) -> Submitter:
        """Of one channel. Makes what the first transfer will need, so that it does not wait."""
        if kind is SubmitterKind.INLINE:
            return InlineSubmitter(self.engines)
        if kind is SubmitterKind.COPROCESSOR:
            return CoprocessorSubmitter(self._open_control)
        self.slots.warm(self.streams)
        return HostSubmitter(
            self.engines, self.slots, streams=self.streams, inline_below=self.inline_below
        )

    def _open_control(self) -> HostControlStream:
        return HostControlStream(self.engines, self.max_transfers_per_batch)
