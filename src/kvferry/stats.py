"""What was counted on a channel over one path, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from ._core import Tally

__all__ = ["Stats", "Times", "snapshot"]


@dataclass(frozen=True, slots=True)
class Times:
    """How long something took: how often, in seconds in all, and at most."""

    count: int
    total: float
    longest: float

    def join(self, other: Times) -> Times:
        return Times(
            self.count + other.count, self.total + other.total, max(self.longest, other.longest)
        )

    def describe(self) -> str:
        mean = self.total / self.count if self.count else 0.0
        return f"{self.count}, {mean * 1e6:.1f} us on average and {self.longest * 1e6:.1f} at most"


class Stats(NamedTuple):
    """Sums over the finished transfers of one channel over one path.

    transfers            from submission to the last completion; those that moved every byte
    copies               of these, from the first byte to the last completion
    bytes, descriptors   they moved
    staged_bytes         of them went through a pool
    inline_copies        copies that the submitting threads made themselves
    stream_submissions   runs handed to streams
    coprocessor_batches  logical batches unfolded by a coprocessor
    """

    transfers: Times
    copies: Times
    bytes: int
    descriptors: int
    staged_bytes: int
    inline_copies: int
    stream_submissions: int
    coprocessor_batches: int

    def join(self, other: Stats) -> Stats:
        return Stats(
            self.transfers.join(other.transfers),
            self.copies.join(other.copies),
            *map(add, self[2:], other[2:]),
        )

    def describe(self) -> str:
        """One line for the log."""
        return (
            f"transfers {self.transfers.describe()}; copies {self.copies.describe()}; "
            f"{self.bytes} bytes in {self.descriptors} descriptors, {self.staged_bytes} staged; "
            f"{self.inline_copies} inline, {self.stream_submissions} stream, "
            f"{self.coprocessor_batches} coprocessor"
        )


def snapshot(tally: Tally) -> Stats:
    """The sums as they stand now."""
    return Stats(
        Times(tally.transfers, tally.total_ns / 1e9, tally.longest_ns / 1e9),
        Times(tally.transfers, tally.moving_ns / 1e9, tally.longest_moving_ns / 1e9),
        tally.bytes,
        tally.descriptors,
        tally.staged,
        tally.inline_copies,
        tally.stream_submissions,
        tally.coprocessor_batches,
    )
