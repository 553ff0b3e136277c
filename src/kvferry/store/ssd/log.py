"""The log of a folder: records are appended, read where they lie, and leave a segment at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...errors import ClosedError, UsageError
from ..table import Ints, Words
from .appender import Appender, Shape
from .disk import Aligned, Disk, disk_errors, is_direct
from .handles import Handle, Handles
from .identity import claim
from .opening import Damage, Found, Opening
from .record import BLOCK, SEGMENT_MOST, Rows, Verdict, offset_of, segment_of
from .segment import Present, index_of, path_of

__all__ = ["SEGMENT_BYTES", "Damage", "Found", "Log", "SegmentFacts"]

SEGMENT_BYTES = 64 << 20
RUN_BYTES = (4 << 20) + (64 << 10)  # four values of a MiB, with their rows
SCRATCH_BYTES = 2 << 20  # of one who reads
PART_BYTES = 1 << 20  # of a read, at least, are worth a thread
SHARERS = 4  # threads


class SegmentFacts(NamedTuple):
    """bytes   of the file, its index aside
    sealed  it is written to no more, and may be dropped
    """

    number: int
    bytes: int
    sealed: bool


class Wanted(NamedTuple):
    """Records to read, as _core.disk_read has them."""

    fds: NDArray[np.int32]
    offsets: Words
    lengths: Words
    crcs: NDArray[np.uint32]
    addresses: Words

    def part(self, which: slice) -> Wanted:
        fds, offsets, lengths, crcs, addresses = self
        return Wanted(fds[which], offsets[which], lengths[which], crcs[which], addresses[which])


class Log:
    """Records in a folder that is this owner's, and open here alone.

        with Log(folder, owner) as log:
            for rows, places in log.rows(): ...  # once, to its end, before anything is appended
            places = log.append(rows, addresses)
            verdicts = log.read(places, lengths, crcs, addresses)

    rows, append, seal, sync and close belong to one thread; read, drop and segments are
    thread-safe. Everything blocks. Segments are numbered in the order in which they were begun.

    owner          whose folder it is: `owner_name(tenant)`
    segment_bytes  of a file, its index aside; a value is shorter by two blocks
    run_bytes      that are written at a time, unless one value is longer; twice as many are staged
    disk           what changes the folder: the os module, or what a test lets fail

    Raises UsageError before anything in the folder is touched: "ssd_in_use", "ssd_owner",
    "ssd_version", "ssd_damaged" (its identity cannot be read). DeviceError "ssd_full", "ssd_io".
    """

    def __init__(
        self,
        folder: Path,
        owner: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        run_bytes: int = RUN_BYTES,
        disk: Disk = os,
    ) -> None:
        if segment_bytes % BLOCK or not 2 * BLOCK <= segment_bytes <= SEGMENT_MOST:
            raise UsageError(f"no segment has {segment_bytes} bytes", cause="ssd_segment")
        self._folder = folder
        self._disk = disk
        self._shape = Shape(segment_bytes, min(run_bytes, segment_bytes - BLOCK))
        self._claim = claim(folder, owner, disk)
        self._direct = os.O_DIRECT if is_direct(disk, folder / "identity") else 0
        self._present = Present()
        self._handles = Handles(folder, self._direct, disk)
        self._scratch: list[Aligned] = []  # of readers, who bring it back
        self._sharers = ThreadPoolExecutor(SHARERS, thread_name_prefix="kvferry-ssd-read")
        self._opening = Opening(folder, self._claim.identity, self._direct, disk)
        self._appender: Appender | None = None
        self._open = True

    @property
    def direct(self) -> bool:
        """Does it go past the page cache?"""
        return bool(self._direct)

    @property
    def damage(self) -> Damage:
        """What was found that is not as it was written; complete when rows() has ended."""
        return self._opening.damage

    def rows(self) -> Iterator[Found]:
        """Every row there is, a segment at a time, in the order of sequences. To be called once.

        Of a segment that was sealed the values are not looked at; every other one is read through,
        cut before its first run that is not whole, and sealed, unless rows are lost. DeviceError.
        """
        self._check_open()
        if self._appender is not None:
            raise UsageError("the rows of a log are told once", cause="ssd_rows")
        number, sequence = 0, 0
        with disk_errors(f"cannot open {self._folder}"):
            for segment, found in self._opening:
                self._present.add(segment)
                number = segment.number + 1
                sequence = max(sequence, int(found.rows["sequence"].max(initial=0)) + 1)
                yield found
        self._appender = Appender(
            self._folder,
            self._claim.identity,
            self._shape,
            self._direct,
            self._disk,
            self._present,
            number,
            sequence,
        )

    @property
    def doubtful(self) -> list[int]:
        """Segments that may hold what later rows said is void, or replaced, since such rows are
        lost: to be dropped in this order, before anything is appended. Complete as `damage` is."""
        last = self._opening.lost
        return [each.number for each in self._present.all() if each.number <= last]

    def append(self, rows: Rows, addresses: Words) -> Ints:
        """Write values, the `length` bytes at each address, and their rows; the values' places.

        Of `rows` the caller fills in digest, length, attrs, expires and kind, and finds sequence,
        crc32c and at here afterwards. A GONE row has length 0, and its address is not looked at;
        its place tells its segment alone. Values must not change until this returns. One append
        may span segments. What it wrote is on the disk after sync() or seal(), or when its segment
        became full.

        UsageError, before anything is written: "too_large" for a segment; "ssd_rows": rows() has
        not ended. DeviceError: nothing of it counts, and the next append begins a new segment.
        """
        with disk_errors(f"cannot write to {self._folder}"):
            return self._writable().append(rows, addresses)

    def sync(self) -> None:
        """All that was appended outlives a loss of power. DeviceError: it may."""
        with disk_errors(f"cannot write to {self._folder}"):
            self._writable().sync()

    def seal(self) -> None:
        """The same; and it is opened without a scan, unless power is lost at once. The next append
        begins a new segment. DeviceError: it may be so, and the next append does so, too."""
        with disk_errors(f"cannot write to {self._folder}"):
            self._writable().seal()

    def read(
        self, places: Ints, lengths: Words, crcs: NDArray[np.uint32], addresses: Words
    ) -> NDArray[np.uint8]:
        """Bring values to addresses where there is room for `lengths` bytes each; a Verdict each.

        Lengths and checksums are those of the rows. Every checksum is verified; where it is wrong,
        the bytes at the address are any.
        """
        self._check_open()
        order = np.argsort(places, kind="stable")
        numbers, which = np.unique(segment_of(places[order]), return_inverse=True)
        taken = [self._take(int(number)) for number in numbers]
        fds = np.array([-1 if isinstance(each, Verdict) else each.fd for each in taken], np.int32)
        try:
            found = self._share(
                Wanted(
                    fds[which],
                    offset_of(places[order]),
                    lengths[order],
                    crcs[order],
                    addresses[order],
                )
            )
        finally:
            for each in taken:
                if not isinstance(each, Verdict):
                    self._handles.give_back(each)
        for index, each in enumerate(taken):
            if isinstance(each, Verdict):
                found[which == index] = each
        verdicts = np.empty(len(places), np.uint8)
        verdicts[order] = found
        return verdicts

    def segments(self) -> list[SegmentFacts]:
        """Those that are there, in the order in which they were begun."""
        return [
            SegmentFacts(each.number, each.bytes, each.fd is None) for each in self._present.all()
        ]

    def drop(self, number: int) -> None:
        """Give back the bytes of a segment. A read that is under way there ends well, later ones
        find it MISSING. Nothing happens where there is none. UsageError "ssd_active": it is being
        written to, so seal() first. DeviceError: it is still there."""
        segment = self._present.get(number)
        if segment is None:
            return
        if segment.fd is not None:
            raise UsageError(f"segment {number} is being written to", cause="ssd_active")
        with disk_errors(f"cannot drop a segment of {self._folder}"):
            # The segment last: an index that is left behind says that its segment was lost.
            for path in (index_of(self._folder, number), path_of(self._folder, number)):
                with contextlib.suppress(FileNotFoundError):
                    self._disk.unlink(path)
        self._present.remove(number)
        self._handles.forget(number)

    def close(self) -> None:
        """Seal, and let others have the folder. When nothing else of it is under way."""
        if self._open:
            self._open = False
            if self._appender is not None:
                self._appender.close()
            self._sharers.shutdown()
            self._handles.close()
            self._claim.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _writable(self) -> Appender:
        self._check_open()
        if self._appender is None:
            raise UsageError("a log is written to when its rows were told", cause="ssd_rows")
        return self._appender

    def _check_open(self) -> None:
        if not self._open:
            raise ClosedError("the log was closed", cause="closed")

    def _take(self, number: int) -> Handle | Verdict:
        try:
            return self._handles.take(number)
        except FileNotFoundError:
            return Verdict.MISSING
        except OSError:
            return Verdict.FAILED

    def _share(self, wanted: Wanted) -> NDArray[np.uint8]:
        """Parts at once, if there is much: one is summed up while the disk is busy with another."""
        ends = np.cumsum(wanted.lengths)
        parts = min(int(ends[-1]) // PART_BYTES, SHARERS) if len(ends) else 0
        if len(ends) < 2 or parts < 2:
            return self._fetch(wanted)
        steps = np.arange(1, parts) * (ends[-1] // np.uint64(parts))
        bounds = [0, *np.searchsorted(ends, steps, "right").tolist(), len(ends)]
        slices = [slice(*pair) for pair in pairwise(bounds) if pair[0] < pair[1]]
        later = [self._sharers.submit(self._fetch, wanted.part(each)) for each in slices[1:]]
        try:
            first = self._fetch(wanted.part(slices[0]))
        finally:
            wait(later)
        return np.concatenate([first, *(each.result() for each in later)])

    def _fetch(self, wanted: Wanted) -> NDArray[np.uint8]:
        try:
            scratch = self._scratch.pop()
        except IndexError:
            scratch = Aligned(SCRATCH_BYTES)
        try:
            return _core.disk_read(*wanted, scratch.address, len(scratch))
        finally:
            self._scratch.append(scratch)
