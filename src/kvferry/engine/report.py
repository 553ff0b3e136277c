"""What happened in a transfer, read from its counters when asked for."""

from __future__ import annotations

from .._core import Counts
from ..path import Path
from .answers import Answer, answers

__all__ = ["Report"]


class Report(Counts):
    """A transfer that ended with every byte visible at its destination.

    The counters answer what a name would only promise: who put the copies in motion, and whether
    bytes were staged on the way.

    path                  that it took
    bytes, descriptors    moved
    staged_bytes          of them went through a pool on their way
    served_bytes          of them were moved at the peer by native threads of its engine
    inline_copies         copies that the submitting thread made itself
    stream_submissions    runs handed to streams
    coprocessor_batches   logical batches unfolded by a coprocessor
    """

    __slots__ = ()

    path: Path

    @property
    def seconds(self) -> float:
        """From submission to the last completion."""
        return self.elapsed_ns / 1e9

    @property
    def moving_seconds(self) -> float:
        """From the first byte to the last completion: what waiting for a slot is not part of."""
        return self.moving_ns / 1e9

    @property
    def answers(self) -> tuple[Answer, ...]:
        """One-sided? zero-copy? direct? mapped? who submitted? Each with its counter."""
        return answers(self)

    def __repr__(self) -> str:
        return (
            f"<Report {self.bytes} bytes in {self.descriptors} descriptors, "
            f"{self.seconds * 1e6:.1f} us, over {self.path}>"
        )
