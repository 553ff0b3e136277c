"""Writes runs behind each other, in one segment after the other. An append counts whole."""

from __future__ import annotations

import contextlib
import errno
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import UsageError
from ..table import Ints, Words
from .disk import Disk, write_all
from .record import BLOCK, SEGMENTS, Bytes, Rows, lay_out, places_of, runs_of
from .segment import Present, Segment, begin, path_of
from .staging import Staging

__all__ = ["Appender", "Shape"]


class Shape(NamedTuple):
    """segment  bytes at most
    run      bytes; a longer one has a single row
    """

    segment: int
    run: int


class Mark(NamedTuple):
    """How a segment was before an append."""

    segment: Segment
    bytes: int
    runs: int


class Appender:
    """One thread. What it begins is told to `present`. Numbers and sequences begin here with
    those that are given."""

    def __init__(
        self,
        folder: Path,
        identity: bytes,
        shape: Shape,
        direct: int,
        disk: Disk,
        present: Present,
        number: int,
        sequence: int,
    ) -> None:
        self._folder = folder
        self._identity = identity
        self._shape = shape
        self._direct = direct
        self._disk = disk
        self._present = present
        self._number = number
        self._sequence = sequence
        self._staging = Staging(shape.run + BLOCK)
        self._active: Segment | None = None
        self._marks: list[Mark] = []  # of the append that is under way
        self._owed: list[Mark] = []  # of appends that failed, where the disk refused to undo them

    def append(self, rows: Rows, addresses: Words) -> Ints:
        """OSError: nothing of it counts. UsageError before anything is written."""
        runs = list(runs_of(rows, self._shape.run))
        sizes = [lay_out(rows[run]) for run in runs]
        if max(sizes, default=0) > self._shape.segment - BLOCK:
            longest = int(rows["length"].max())
            raise UsageError(f"no segment can hold {longest} bytes", cause="too_large")
        self._cut_owed()
        rows["sequence"] = self._sequence + np.arange(len(rows), dtype=np.uint64)
        self._sequence += len(rows)
        try:
            places = [
                self._write(rows[run], addresses[run], size)
                for run, size in zip(runs, sizes, strict=True)
            ]
            self._staging.settle()
        except BaseException:
            self._undo()
            raise
        self._done()
        return np.concatenate([np.zeros(0, np.int64), *places])

    def seal(self) -> None:
        """What was appended is on the disk, and found without a scan. OSError: it may be so."""
        active, self._active = self._active, None
        if active is not None:
            try:
                active.seal(self._folder, self._disk)
            finally:
                active.end()

    def sync(self) -> None:
        """What was appended is on the disk. OSError: it may be there."""
        if self._active is not None and self._active.fd is not None:
            self._disk.fdatasync(self._active.fd)

    def close(self) -> None:
        for last in (self.seal, self._cut_owed):
            with contextlib.suppress(OSError):  # it will be scanned
                last()
        for mark in self._owed:
            mark.segment.end()
        self._staging.close()

    def _write(self, rows: Rows, addresses: Words, size: int) -> Ints:
        segment = self._room(size)
        at = segment.bytes
        run = self._staging.stage(rows, addresses, segment.birth, at, size)
        rows["at"] += np.uint64(at)
        segment.rows.append(rows.copy())
        segment.bytes += size
        self._staging.write(run, partial(self._put, segment, at))
        return places_of(segment.number, rows["at"])

    def _put(self, segment: Segment, at: int, run: Bytes) -> None:
        assert segment.fd is not None
        write_all(self._disk, segment.fd, run, at)

    def _room(self, size: int) -> Segment:
        active = self._active
        if active is None or active.bytes + size > self._shape.segment:
            self._staging.settle()
            if not self._marks:  # else it is sealed when this append counts
                self.seal()
            active = self._active = self._begin()
        if not self._marks or self._marks[-1].segment is not active:
            self._marks.append(Mark(active, active.bytes, len(active.rows)))
        return active

    def _begin(self) -> Segment:
        while self._number < SEGMENTS:
            number, self._number = self._number, self._number + 1
            with contextlib.suppress(FileExistsError):
                most = self._shape.segment
                segment = begin(
                    self._folder, number, self._identity, most, self._direct, self._disk
                )
                self._present.add(segment)
                return segment
        raise OSError(errno.EFBIG, "no more numbers for segments")

    def _done(self) -> None:
        marks, self._marks = self._marks, []
        for segment, *_ in marks:
            if segment is not self._active:  # it became full
                with contextlib.suppress(OSError):  # it will be scanned
                    segment.seal(self._folder, self._disk)
                segment.end()

    def _undo(self) -> None:
        """Of every segment that was written to, what was there before counts."""
        with contextlib.suppress(OSError):
            self._staging.settle()
        self._owed, self._marks, self._active = [*self._owed, *self._marks], [], None
        with contextlib.suppress(OSError):  # tried again before the next append
            self._cut_owed()

    def _cut_owed(self) -> None:
        while self._owed:
            self._cut(*self._owed[-1])
            self._owed.pop().segment.end()

    def _cut(self, segment: Segment, size: int, runs: int) -> None:
        """OSError: rows may be found that do not count."""
        del segment.rows[runs:]
        shorter = segment.cut(size, self._disk)
        try:
            if segment.rows:
                segment.seal(self._folder, self._disk)
            else:
                self._disk.unlink(path_of(self._folder, segment.number))
                self._present.remove(segment.number)
        except OSError:
            if not shorter:
                raise
