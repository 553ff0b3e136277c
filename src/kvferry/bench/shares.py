"""Who moves what to whom. Pure: decided from a pattern, a number of peers and a size.

    pairwise       I0 -- T0    I1 -- T1    ..       each an initiator and a target of its own
    one-to-many    I0 -- T0, I0 -- T1      ..       one initiator, a slice of its memory a target
    many-to-one    I0 -- T0, I1 -- T0      ..       one target, a slice of its memory an initiator

However many processes there are, all initiators together have one side, and all targets the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from ..errors import UsageError

__all__ = ["Pattern", "Share", "extents", "parse_pattern", "shares", "whole"]

PAGE = 4096


class Pattern(str, Enum):
    PAIRWISE = "pairwise"
    ONE_TO_MANY = "one-to-many"
    MANY_TO_ONE = "many-to-one"


class Share(NamedTuple):
    """What one initiator moves between itself and one target: equal slices of their regions.

    initiator, target  numbers of processes
    size               of the slice on either side, in bytes
    local_at           where it begins in the initiator's region, in bytes
    remote_at          where it begins in the target's
    """

    initiator: int
    target: int
    size: int
    local_at: int = 0
    remote_at: int = 0


def whole(size: int) -> Share:
    """One initiator, one target, all of their memory."""
    return Share(0, 0, size)


def shares(pattern: Pattern | None, peers: int, size: int) -> list[Share]:
    """`size` bytes a side, cut for `peers` peers into whole pages. Raises UsageError for too few
    bytes.
    """
    if pattern is None:
        return [whole(size)]
    each = size // peers // PAGE * PAGE
    if not each:
        raise UsageError(
            f"{size} bytes a side are less than a page for {peers} peers", cause="size"
        )
    return [_SHARES[pattern](number, each) for number in range(peers)]


_SHARES = {
    Pattern.PAIRWISE: lambda number, size: Share(number, number, size),
    Pattern.ONE_TO_MANY: lambda number, size: Share(0, number, size, local_at=number * size),
    Pattern.MANY_TO_ONE: lambda number, size: Share(number, 0, size, remote_at=number * size),
}


def extents(numbers: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Bytes that each process needs, by its number: `sizes[i]` more for process `numbers[i]`."""
    totals = [0] * (max(numbers) + 1)
    for number, size in zip(numbers, sizes, strict=True):
        totals[number] += size
    return totals


def parse_pattern(text: str) -> Pattern:
    """Raises UsageError that lists the known ones."""
    try:
        return Pattern(text)
    except ValueError:
        known = ", ".join(each.value for each in Pattern)
        raise UsageError(f"unknown pattern {text!r}: know {known}", cause="pattern") from None
