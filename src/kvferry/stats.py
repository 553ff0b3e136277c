"""What was counted on a channel, as one value."""

from __future__ import annotations

from typing import NamedTuple

from ._core import Tally

__all__ = ["Stats", "snapshot"]


class Stats(NamedTuple):
    """Sums over the finished transfers of one channel.

    transfers           that ended with every byte moved
    bytes, descriptors  they moved
    inline_copies       copies that the submitting threads made themselves
    stream_submissions  runs handed to streams
    seconds             from submission to the last completion, summed
    longest             the longest of them
    """

    transfers: int
    bytes: int
    descriptors: int
    inline_copies: int
    stream_submissions: int
    seconds: float
    longest: float


def snapshot(tally: Tally) -> Stats:
    """The sums as they stand now."""
    return Stats(
        tally.transfers,
        tally.bytes,
        tally.descriptors,
        tally.inline_copies,
        tally.stream_submissions,
        tally.total_ns / 1e9,
        tally.longest_ns / 1e9,
    )
