"""What is written behind, and what of it is done: all that needs the lock of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..answers import Cause, Digests
from ..table import Entries, IndexLike, Ints, Words
from ..witness import Witness
from .backlog import Backlog, Void
from .segments import ALL
from .shelf import FULL, Records, Shelf, footprints, past

__all__ = ["Behind", "Load"]

# What leaves memory for another cause is void on the disk, too.
STAYS_ON_DISK = (Cause.EVICTED, Cause.DRAINED)


class Load(NamedTuple):
    """What is to be written in one go.

    gone     keys of which all earlier rows are void, before the rest
    entries  objects where they lie in memory; nobody else gets their bytes meanwhile
    records  the same on the shelf, a row each
    """

    gone: Digests
    entries: Entries
    records: Records


class Behind:
    """A witness of the catalog, whose lock is held whenever anything here is called.

    An object in memory whose key is on the shelf is the one that lies there: the ledger lets nobody
    store another. What is removed leaves the shelf at once, also while it is being written; then
    the row that is on its way is void, and the disk is told so afterwards.

    index      where objects stand in memory
    most       bytes that a record may take; larger ones stay in memory alone
    witnesses  learn who comes to the node, and who leaves memory and disk both
    ample      is the disk at least twice as large as memory?
    """

    def __init__(
        self,
        index: IndexLike,
        shelf: Shelf,
        most: int,
        witnesses: Sequence[Witness] = (),
        ample: bool = True,
    ) -> None:
        self.shelf = shelf
        self._witnesses = witnesses
        self.backlog = Backlog(index)
        self.void = Void()
        self.going: int | None = None  # the segment that went last, or is about to
        self.crowded = False  # the shelf's index has no entry for what is to be written
        # What lies in memory, too, is written once more when it leaves the disk. Where the disk is
        # not much larger than memory, that would never end.
        self.ample = ample
        self.demoted = self.lost = self.too_large = 0  # objects
        self._index = index
        self._most = most
        # By slot in memory: it lies on the disk, or did, and is not written there once more.
        self._saved = np.zeros(index.capacity, np.bool_)
        self._copied = np.zeros(0, np.uint64)  # generations whose bytes are read this moment

    # ---- what the catalog says and asks ----

    def came(self, entries: Entries) -> None:
        on_shelf = self.shelf.has(_column(entries, "digest"))
        self._saved[entries["slot"][on_shelf].astype(np.int64)] = True
        entries = entries[~on_shelf]
        self.backlog.add(entries["slot"].astype(np.int64), _column(entries, "generation"))
        if len(entries):
            for witness in self._witnesses:
                witness.came(entries)

    def left(self, entries: Entries, cause: Cause) -> None:
        self._saved[entries["slot"].astype(np.int64)] = False
        digests = _column(entries, "digest")
        if cause not in STAYS_ON_DISK:
            self._bury(digests)
        on_shelf = self.shelf.has(digests)
        if cause is Cause.EVICTED:
            self.demoted += int(on_shelf.sum())
            self.lost += int((~on_shelf).sum())
        self._gone(entries[~on_shelf], cause)

    def dear(self, slots: Ints) -> NDArray[np.bool_]:
        """Which of the objects in memory are to be written still."""
        return ~self._saved[slots]

    def held(self, generations: Words) -> NDArray[np.bool_]:
        """Which of the objects in memory are read this moment, to be written."""
        held: NDArray[np.bool_] = np.isin(generations, self._copied)
        return held

    # ---- leaving ----

    def bury(self, digests: Digests, cause: Cause) -> NDArray[np.bool_]:
        """These are not on the shelf any more, and the disk will be told; which of them were."""
        slots = self.shelf.find(digests)
        entries = self.shelf.index.read(np.unique(slots[slots >= 0]))
        self._bury(digests)
        self._gone_for_good(entries, cause)
        return slots >= 0

    def _bury(self, digests: Digests) -> None:
        slots = self.shelf.find(digests)
        there = slots >= 0
        self.shelf.forget(np.unique(slots[there]))
        self.void.add(digests[there])

    # ---- writing ----

    def take(self, bytes: int, moments: Words, now: int) -> Load:
        """The next to be written, of about so many bytes; `written` or `failed` follows. `moments`
        at which the objects in memory expire, by slot."""
        entries = self.backlog.take(bytes)
        entries = entries[self._wanted(entries, moments, now)]
        expires = moments[entries["slot"].astype(np.int64)]
        lengths, attrs = _column(entries, "length"), _column(entries, "attrs")
        slots = self.shelf.begin(_column(entries, "digest"), lengths, attrs, expires)
        full = slots == FULL
        self.crowded = bool(full.any())
        self._again(entries[full])
        entries, slots = entries[slots >= 0], slots[slots >= 0]
        self._copied = np.sort(_column(entries, "generation"))
        return Load(self.void.take(), entries, self.shelf.read(slots))

    def written(self, load: Load, gone: Ints, places: Ints, crcs: Words) -> None:
        """A load is on the disk: its words about the void and its values at these places."""
        self._copied = self._copied[:0]
        self.shelf.bury(gone, load.gone)
        self.void.told(len(load.gone))
        self.shelf.land(load.records.slots, load.records.generations, places, crcs)
        self._mark(load.records.digests)

    def failed(self, load: Load) -> None:
        """It is not. What is in memory still is to be written again."""
        self._copied = self._copied[:0]
        self.void.give_back(load.gone)
        entries = self.shelf.cancel(load.records.slots, load.records.generations)
        self._gone_for_good(entries, Cause.EVICTED)
        self._again(load.entries)

    def moved(self, records: Records, places: Ints) -> None:
        """Records lie at other places now, those at least that are on the shelf still."""
        self.shelf.land(records.slots, records.generations, places, records.crcs)

    def clear(
        self, number: int, sparse: bool, oldest: bool, most: int, part: slice = ALL
    ) -> tuple[Records, Digests]:
        """What of a segment that is to go, or of a part of it, is written once more, before; and of
        which keys the disk is told that what is older is void, since the row that said so goes as
        well.

        What lies in memory, too, is written from there later, if it is at all.
        """
        shelf = self.shelf
        worthy = shelf.worthy(number, sparse, most, part)
        worthy = worthy[self._index.find(shelf.read(worthy).digests) < 0]
        there = shelf.contents(number, part)
        leaving = shelf.read(there[~np.isin(there, worthy)]).digests
        debts = shelf.debts(number, oldest, part)
        return shelf.read(worthy), debts if oldest else np.concatenate((debts, leaving))

    def empty(self, number: int, part: slice = ALL) -> Digests:
        """A segment goes, or a part of it; keys of which nothing is left."""
        dropped = self.shelf.empty(number, part)
        digests = _column(dropped, "digest")
        slots = self._index.find(digests)
        entries = self._index.read(slots[slots >= 0])
        if self.ample:
            self._saved[slots[slots >= 0]] = False
            self._again(entries)
        self._gone(dropped[slots < 0], Cause.EVICTED)
        return digests[slots < 0]

    # ---- steps ----

    def _wanted(self, entries: Entries, moments: Words, now: int) -> NDArray[np.bool_]:
        expires = moments[entries["slot"].astype(np.int64)]
        small: NDArray[np.bool_] = footprints(_column(entries, "length")) <= self._most
        self.too_large += int((~small).sum())
        return small & ~past(expires, now)

    def _mark(self, digests: Digests) -> None:
        """These are in memory or not, and on the shelf still or not."""
        slots = self._index.find(digests)
        self._saved[slots[(slots >= 0) & self.shelf.has(digests)]] = True

    def _gone_for_good(self, entries: Entries, cause: Cause) -> None:
        """Those of the shelf that are not in memory either."""
        if len(entries):
            self._gone(entries[self._index.find(_column(entries, "digest")) < 0], cause)

    def _gone(self, entries: Entries, cause: Cause) -> None:
        if len(entries):
            for witness in self._witnesses:
                witness.left(entries, cause)

    def _again(self, entries: Entries) -> None:
        self.backlog.give_back(entries["slot"].astype(np.int64), _column(entries, "generation"))


def _column(entries: Entries, name: str) -> Words:
    return np.ascontiguousarray(entries[name])
