"""What of each segment is of use still, and which one has to make room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..answers import Digests
from ..table import Ints

__all__ = ["ALL", "Segment", "Segments"]

ALL = slice(None)

NONE = np.empty(0, np.int64)
NO_DIGESTS = np.empty((0, 2), np.uint64)
PART = 4096  # slots, or digests: others wait for the lock while they are looked at
SPARSE = 4  # a segment of which less than one part in so many lives is not worth its bytes


@dataclass
class Segment:
    """live    bytes of records that are found there
    slots   of records that were written there, also of those that have left since
    sorted  they are one array, in order, each once
    gone    digests of which a row there says that what is older is void
    rows    of either kind
    """

    live: int = 0
    rows: int = 0
    slots: list[Ints] = field(default_factory=list)
    sorted: bool = False
    gone: list[Digests] = field(default_factory=list)


class Segments:
    """By number, which grows from one segment to the next."""

    def __init__(self) -> None:
        self._by_number: dict[int, Segment] = {}
        self.rows = 0  # of all of them

    def written(self, number: int, slots: Ints) -> None:
        """Records of these slots lie there."""
        segment = self.of(number)
        segment.slots.append(slots)
        segment.sorted = False
        self._count(number, len(slots))

    def buried(self, number: int, digests: Digests) -> None:
        """Rows there say that what is older of these is void."""
        self.of(number).gone.append(digests)
        self._count(number, len(digests))

    def of(self, number: int) -> Segment:
        return self._by_number.setdefault(number, Segment())

    def live(self, number: int) -> int:
        return self._by_number[number].live if number in self._by_number else 0

    def slots(self, number: int) -> Ints:
        """Of all that was ever written there, each once, in order."""
        segment = self.of(number)
        if not segment.sorted:
            segment.slots = [_each_once(np.concatenate([NONE, *segment.slots]))]
            segment.sorted = True
        return segment.slots[0]

    def gone(self, number: int) -> Digests:
        segment = self.of(number)
        if len(segment.gone) > 1:
            segment.gone = [np.concatenate(segment.gone)]
        return segment.gone[0] if segment.gone else NO_DIGESTS

    def parts(self, number: int) -> Iterator[slice]:
        """Of its slots and of what is gone, as much as can be looked at in one go. Whoever writes
        there may ask without the lock."""
        count = max(len(self.slots(number)), len(self.gone(number)))
        return (slice(at, at + PART) for at in range(0, count, PART))

    def forget(self, number: int) -> None:
        segment = self._by_number.pop(number, None)
        if segment is not None:
            self.rows -= segment.rows

    def numbers(self) -> list[int]:
        return sorted(self._by_number)

    def victim(self, numbers: Ints, sizes: Ints) -> tuple[int, bool]:
        """Which of these, of so many bytes, is to leave: the emptiest one if little of it lives,
        and True; else the oldest."""
        live = np.array([self.live(number) for number in numbers.tolist()], np.int64)
        sparse = np.flatnonzero(live * SPARSE < sizes)
        if not len(sparse):
            return int(numbers.min()), False
        return int(numbers[sparse[np.argmin(live[sparse] / sizes[sparse])]]), True

    def _count(self, number: int, rows: int) -> None:
        self.of(number).rows += rows
        self.rows += rows


def _each_once(slots: Ints) -> Ints:
    """np.unique takes ten times as long."""
    slots = np.sort(slots)
    first = np.ones(len(slots), np.bool_)
    first[1:] = slots[1:] != slots[:-1]
    return slots[first]
