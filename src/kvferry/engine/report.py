"""What happened in a transfer, read from its counters when asked for."""

from __future__ import annotations

from .._core import Counts
from ..path import Path

__all__ = ["Report"]


class Report(Counts):
    """A transfer that ended with every byte visible at its destination.

    The counters answer what a name would only promise: who put the copies in motion, and whether
    bytes were staged on the way.

    path                the channel's
    bytes, descriptors  moved
    inline_copies       copies that the submitting thread made itself
    stream_submissions  runs handed to streams
    """

    __slots__ = ()

    path: Path

    @property
    def seconds(self) -> float:
        """From submission to the last completion."""
        return self.elapsed_ns / 1e9

    @property
    def staged_bytes(self) -> int:
        """Bytes that went through a pool on their way: none on a mapped link without staging."""
        return 0

    def __repr__(self) -> str:
        return (
            f"<Report {self.bytes} bytes in {self.descriptors} descriptors, "
            f"{self.seconds * 1e6:.1f} us, over {self.path}>"
        )
