"""What a folder holds when it is opened: rows that count, and damage."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..table import Ints
from .disk import Disk
from .record import ROW, Rows, places_of
from .scan import Scanned, Scanner
from .segment import Damaged, Segment, index_of, numbers_in, path_of, read_index, read_segment

__all__ = ["Damage", "Found", "Opening"]


class Found(NamedTuple):
    """Rows of one segment, in order, and the place of each one's value. Rows may be read-only."""

    rows: Rows
    places: Ints


@dataclass
class Damage:
    """What was found, and is not as it was written.

    torn     bytes of the last segment that a crash left without a whole run
    foreign  files that bear the name of a segment and are none of this folder; they stay
    indices  that could not be believed; their segments were scanned
    cut      other segments that end before a run that is not whole
    unread   segments of which the disk did not give all
    missing  segments of which only the index is there, or no head that can be read
    """

    torn: int = 0
    foreign: int = 0
    indices: int = 0
    cut: int = 0
    unread: int = 0
    missing: int = 0


class Opening:
    """Goes through a folder once, segment by segment, and mends what a crash left.

    lost  the last segment of which rows are missing that were written. They may have said that what
          is older is void; of such a segment nothing is mended, so that it is known as long as
          anything older is there. -1: none
    """

    def __init__(self, folder: Path, identity: bytes, direct: int, disk: Disk) -> None:
        self.damage = Damage()
        self.lost = -1
        self._folder = folder
        self._identity = identity
        self._direct = direct
        self._disk = disk

    def __iter__(self) -> Iterator[tuple[Segment, Found]]:
        self._tidy()
        numbers, indices = numbers_in(self._folder)
        segments = [*filter(None, map(self._segment, sorted({*numbers, *indices})))]
        with closing(Scanner(self._direct)) as scanner:
            for segment in segments:
                rows = self._rows(segment, scanner, last=segment is segments[-1])
                if len(rows) or segment.number <= self.lost:
                    yield segment, Found(rows, places_of(segment.number, rows["at"]))

    def _tidy(self) -> None:
        """What was not yet renamed when all ended."""
        for path in self._folder.glob("*.new"):
            with contextlib.suppress(OSError):
                self._disk.unlink(path)

    def _segment(self, number: int) -> Segment | None:
        """One without rows, where there was one of which nothing is known."""
        try:
            if os.path.lexists(path_of(self._folder, number)):
                segment = read_segment(self._folder, number, self._identity)
                self.damage.foreign += segment is None
                return segment
        except Damaged:
            pass
        self.damage.missing += 1
        self.lost = number
        return Segment(number, 0, 0)

    def _rows(self, segment: Segment, scanner: Scanner, last: bool) -> Rows:
        if not segment.bytes:
            return np.zeros(0, ROW)
        rows = read_index(self._folder, segment)
        if rows is not None:
            return rows
        sealed = os.path.lexists(index_of(self._folder, segment.number))
        self.damage.indices += sealed
        scanned = scanner.scan(self._folder, segment)
        if self._is_whole(segment, scanned, last and not sealed):
            self._mend(segment, scanned)
        else:
            self.lost = max(self.lost, segment.number)
        return scanned.rows

    def _is_whole(self, segment: Segment, scanned: Scanned, last: bool) -> bool:
        """At the end of the last one is what a crash left, and nothing that was ever told."""
        torn = segment.bytes - scanned.end
        self.damage.unread += not scanned.given
        self.damage.torn += torn if last else 0
        self.damage.cut += torn > 0 and not last
        return scanned.given and (last or not torn)

    def _mend(self, segment: Segment, scanned: Scanned) -> None:
        """So that it need not be scanned again. If the disk refuses, it will be."""
        path = path_of(self._folder, segment.number)
        with contextlib.suppress(OSError):
            if not len(scanned.rows):
                self._disk.unlink(path)
                return
            segment.fd = self._disk.open(path, os.O_WRONLY | os.O_NOFOLLOW, 0)
            try:
                if scanned.end < os.fstat(segment.fd).st_size:
                    segment.cut(scanned.end, self._disk)
                segment.rows = [scanned.rows]
                segment.seal(self._folder, self._disk)
            finally:
                segment.end()
