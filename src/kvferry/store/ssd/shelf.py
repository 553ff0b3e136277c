"""Which object lies at which place of the SSD."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..answers import Digests
from ..table import Entries, IndexLike, Ints, Words
from .record import ALIGNED, ROW, segment_of
from .segments import ALL, Segments

__all__ = ["FULL", "Records", "Shelf", "State", "footprints", "past"]

FULL = -2  # in the place of a slot: the index has no entry for it


class State(IntEnum):
    """Of a slot.

                 begin     land     forget
    NOBODY       WRITING
    WRITING                LYING    NOBODY
    LYING                  LYING    NOBODY      rewritten: at another place
    """

    NOBODY = 0
    WRITING = 1
    LYING = 2


class Records(NamedTuple):
    """A row for each slot that was asked for; crcs of the values, moments at which they expire."""

    slots: Ints
    generations: Words
    digests: Digests
    lengths: Words
    attrs: Words
    moments: Words
    places: Ints
    crcs: Words

    def some(self, which: NDArray[Any]) -> Records:
        return Records(*(column[which] for column in self))


class Shelf:
    """Knows no file, no thread and no clock. One thread at a time.

    index  is its own; others may look into it for what is on the shelf. An object is there from the
           moment at which its writing begins, and stays in one slot when it is written elsewhere.

    Beside the index it takes 22 bytes a slot.
    """

    def __init__(self, index: IndexLike) -> None:
        slots = index.capacity
        self.index = index
        self.segments = Segments()
        self.live = 0  # bytes of what lies there
        self.writing = 0  # objects
        self._generation = 1
        self._states = np.zeros(slots, np.uint8)
        self._places = np.zeros(slots, np.int64)
        self._crcs = np.zeros(slots, np.uint32)
        self._moments = np.zeros(slots, np.uint64)
        self._used = np.zeros(slots, np.bool_)
        self._timed = False  # something expires

    # ---- looking ----

    @property
    def count(self) -> int:
        return self.index.count

    def find(self, digests: Digests) -> Ints:
        """Slots, below 0 of what is not here."""
        return self.index.find(digests)

    def has(self, digests: Digests) -> NDArray[np.bool_]:
        there: NDArray[np.bool_] = self.index.find(digests) >= 0
        return there

    def lies(self, slots: Ints) -> NDArray[np.bool_]:
        """Which of these have a place, from which they can be read."""
        lying: NDArray[np.bool_] = self._states[slots] == State.LYING
        return lying

    def read(self, slots: Ints) -> Records:
        entries = self.index.read(slots)
        return Records(
            slots,
            entries["generation"].copy(),
            entries["digest"].copy(),
            entries["length"].copy(),
            entries["attrs"].copy(),
            self._moments[slots],
            self._places[slots],
            self._crcs[slots].astype(np.uint64),
        )

    def used(self, slots: Ints) -> None:
        """These were read: they are worth one more round."""
        self._used[slots] = True

    def due(self, now: int) -> Ints:
        """Slots of what expires by now."""
        if not self._timed:
            return np.empty(0, np.int64)
        return np.flatnonzero(past(self._moments, now))

    def over(self, slots: Ints, now: int) -> NDArray[np.bool_]:
        if not self._timed:
            return np.zeros(len(slots), np.bool_)
        return past(self._moments[slots], now)

    # ---- coming ----

    def begin(self, digests: Digests, lengths: Words, attrs: Words, moments: Words) -> Ints:
        """These are being written: their slots; below 0, FULL for one, of those that are not taken.
        What is on the shelf is not taken again."""
        count = len(digests)
        generations = np.arange(self._generation, self._generation + count, dtype=np.uint64)
        self._generation += count
        nowhere, rooms = np.zeros(count, np.uint64), footprints(lengths).astype(np.uint64)
        slots = self.index.insert(digests, generations, nowhere, lengths, rooms, attrs)
        taken = slots >= 0
        self._states[slots[taken]] = State.WRITING
        self._used[slots[taken]] = False
        self._moments[slots[taken]] = moments[taken]
        self._timed = self._timed or bool(moments.any())
        self.writing += int(taken.sum())
        return slots

    def land(self, slots: Ints, generations: Words, places: Ints, crcs: Words) -> int:
        """These were written, for the first time or once more. How many were here still."""
        entries = self.index.read(slots)
        here = entries["generation"] == generations
        slots, places, rooms = slots[here], places[here], entries["room"][here].astype(np.int64)
        before = self._states[slots] == State.LYING
        self._account(self._places[slots[before]], -rooms[before])
        self.writing -= int((~before).sum())
        self._states[slots] = State.LYING
        self._used[slots] = False
        self._places[slots] = places
        self._crcs[slots] = crcs[here].astype(np.uint32)
        self._account(places, rooms)
        for number, which in _by_segment(places):
            self.segments.written(number, slots[which])
        return len(slots)

    def bury(self, places: Ints, digests: Digests) -> None:
        """Rows at these places say that what is older of these is void."""
        for number, which in _by_segment(places):
            self.segments.buried(number, digests[which])

    # ---- leaving ----

    def forget(self, slots: Ints) -> None:
        """These, each once, are not here any more."""
        self._leave(self.index.read(slots))

    def cancel(self, slots: Ints, generations: Words) -> Entries:
        """These are not written after all; which of them were here still."""
        entries = self.index.read(slots)
        here: Entries = entries[entries["generation"] == generations]
        self._leave(here)
        return here

    def drop(self, number: int) -> Entries:
        """The segment goes, and all that lies there."""
        entries = self.empty(number)
        self.segments.forget(number)
        return entries

    def empty(self, number: int, part: slice = ALL) -> Entries:
        """All that lies in a part of a segment leaves."""
        entries = self.index.read(self.contents(number, part))
        self._leave(entries)
        return entries

    # ---- room ----

    def contents(self, number: int, part: slice = ALL) -> Ints:
        """Slots of all that lies in a segment, or in a part of it."""
        slots = self.segments.slots(number)[part]
        there: NDArray[np.bool_] = segment_of(self._places[slots]) == number
        return slots[there & self.lies(slots)]

    def worthy(self, number: int, sparse: bool, most: int, part: slice = ALL) -> Ints:
        """What of a segment that goes is to be written once more, up to so many bytes: everything,
        if that is little; else what was read since it was written."""
        slots = self.contents(number, part)
        slots = slots if sparse else slots[self._used[slots]]
        rooms = self.index.read(slots)["room"].astype(np.int64)
        return slots[rooms.cumsum() <= most]

    def debts(self, number: int, oldest: bool, part: slice = ALL) -> Digests:
        """What of a segment's rows about what is void has to be said again when it goes: they have
        to outlive what they are about, which lies in older segments or the same. What is written
        anew voids all that is older itself."""
        gone = self.segments.gone(number)[part]
        slots = self.find(gone)
        return gone[:0] if oldest else gone[(slots < 0) | ~self.lies(slots)]

    def check_integrity(self) -> list[str]:
        """What is wrong, a sentence each."""
        return list(_complaints(self))

    # ---- steps ----

    def _leave(self, entries: Entries) -> None:
        slots = entries["slot"].astype(np.int64)
        generations = np.ascontiguousarray(entries["generation"])
        lying = self._states[slots] == State.LYING
        rooms = entries["room"].astype(np.int64)
        self._account(self._places[slots[lying]], -rooms[lying])
        self.writing -= int((~lying).sum())
        self._states[slots] = State.NOBODY
        self._moments[slots] = 0
        self.index.mark(slots, generations)
        self.index.remove(slots, generations)

    def _account(self, places: Ints, bytes: Ints) -> None:
        self.live += int(bytes.sum())
        for number, which in _by_segment(places):
            self.segments.of(number).live += int(bytes[which].sum())


def past(moments: Words, now: int) -> NDArray[np.bool_]:
    """Which of these have come; 0 never does."""
    over: NDArray[np.bool_] = (moments != 0) & (moments <= np.uint64(now))
    return over


def footprints(lengths: Words) -> Ints:
    """Bytes that records with values of these lengths take."""
    return ROW.itemsize + -(-lengths.astype(np.int64) // ALIGNED) * ALIGNED


def _by_segment(places: Ints) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    numbers = segment_of(places)
    for number in np.unique(numbers).tolist():
        yield number, numbers == number


def _complaints(shelf: Shelf) -> Iterator[str]:
    entries = shelf.index.scan(0, shelf.index.capacity)
    slots = entries["slot"].astype(np.int64)
    states = shelf._states
    if not np.array_equal(np.flatnonzero(states), np.sort(slots)):
        yield "a slot has a state and no object, or an object and no state"
    if (shelf.index.find(np.ascontiguousarray(entries["digest"])) != slots).any():
        yield "an object is not found where it stands"
    lying = states[slots] == State.LYING
    rooms = entries["room"].astype(np.int64)
    if shelf.writing != int((~lying).sum()) or shelf.live != int(rooms[lying].sum()):
        yield "what is being written, or the bytes that live, are counted wrong"
    numbers = segment_of(shelf._places[slots])
    for number in {*shelf.segments.numbers(), *numbers[lying].tolist()}:
        there = lying & (numbers == number)
        if shelf.segments.live(number) != int(rooms[there].sum()):
            yield f"segment {number} counts its live bytes wrong"
        if not np.array_equal(shelf.contents(number), np.sort(slots[there])):
            yield f"segment {number} does not know what lies there"
    if shelf._moments[states == State.NOBODY].any():
        yield "nobody has a moment to expire at"
