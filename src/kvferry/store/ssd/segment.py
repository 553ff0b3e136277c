"""One file of the log: a head, then runs; and the index beside it that seals it.

    NUMBER.kvf   | head 64, zeros to 4096 | run | run | ...
    NUMBER.idx   | head 64 | row 96 | row 96 | ...      `at` of a row is in the segment

    head of a segment   magic u64 | version u32 | spare 4 | identity 16 | number u64 | birth u64 |
                        bytes at most u64 | spare 4 | CRC-32C of the head u32
    head of an index    magic u64 | version u32 | CRC-32C of the rows u32 | birth u64 | bytes of the
                        segment u64 | rows u64 | spare 20 | CRC-32C of the head u32

`birth` is random: what an index or a run says of another file of this name is not believed. An
index appears by a rename, after all that it tells of was forced to the disk. It is not forced
itself, which would take as long again: one that a loss of power left torn is not believed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import threading
from pathlib import Path

import numpy as np

from ... import _core
from .disk import Aligned, Disk, read_small, write_all
from .identity import VERSION
from .record import (
    BLOCK,
    ROW,
    SEGMENTS,
    Head,
    Rows,
    are_rows,
    summed,
    sums_up,
)

__all__ = [
    "Damaged",
    "Present",
    "Segment",
    "begin",
    "index_of",
    "numbers_in",
    "path_of",
    "read_index",
    "read_segment",
]

MAGIC = int.from_bytes(b"kvferSeg", "little")
INDEX_MAGIC = int.from_bytes(b"kvferIdx", "little")
HEAD = np.dtype(
    [
        ("magic", "<u8"),
        ("version", "<u4"),
        ("spare", "<u4"),
        ("identity", "u1", 16),
        ("number", "<u8"),
        ("birth", "<u8"),
        ("most", "<u8"),
        ("more", "<u4"),
        ("crc32c", "<u4"),
    ]
)
INDEX_HEAD = np.dtype(
    [
        ("magic", "<u8"),
        ("version", "<u4"),
        ("rows_crc32c", "<u4"),
        ("birth", "<u8"),
        ("bytes", "<u8"),
        ("rows", "<u8"),
        ("spare", "u1", 20),
        ("crc32c", "<u4"),
    ]
)
NAME = re.compile(r"([0-9a-f]{16})\.(kvf|idx)")
WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
NO_FILE = errno.ELOOP, errno.ENXIO, errno.ENOENT  # but a link, or a socket, or nothing any more


class Damaged(Exception):
    """It may be ours, and cannot be read: nobody knows what rows it had."""


class Segment:
    """A segment that is there. `fd` and `rows` are of one that is written to."""

    def __init__(self, number: int, birth: int, size: int, fd: int | None = None) -> None:
        self.number = number
        self.birth = birth
        self.bytes = size  # up to the end of its last run, or of what may hold runs
        self.fd = fd
        self.rows: list[Rows] = []  # `at` in the segment

    def seal(self, folder: Path, disk: Disk) -> None:
        """All its rows are found without a scan from now on. OSError: it stays as it was."""
        assert self.fd is not None
        disk.fdatasync(self.fd)
        rows = np.concatenate(self.rows) if self.rows else np.zeros(0, ROW)
        write_index(folder, self, rows, disk)

    def cut(self, end: int, disk: Disk) -> bool:
        """Shorten the file. False: it is as long as before, so that its index has to tell what
        counts."""
        assert self.fd is not None
        with contextlib.suppress(OSError):
            disk.ftruncate(self.fd, end)
        self.bytes = os.fstat(self.fd).st_size
        return self.bytes == end

    def end(self) -> None:
        """It is written to no more."""
        if self.fd is not None:
            os.close(self.fd)
        self.fd, self.rows = None, []


class Present:
    """The segments that are there. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments: dict[int, Segment] = {}

    def add(self, segment: Segment) -> None:
        with self._lock:
            self._segments[segment.number] = segment

    def get(self, number: int) -> Segment | None:
        with self._lock:
            return self._segments.get(number)

    def remove(self, number: int) -> None:
        with self._lock:
            self._segments.pop(number, None)

    def all(self) -> list[Segment]:
        """In the order in which they were begun."""
        with self._lock:
            return [self._segments[number] for number in sorted(self._segments)]


def path_of(folder: Path, number: int) -> Path:
    return folder / f"{number:016x}.kvf"


def index_of(folder: Path, number: int) -> Path:
    return folder / f"{number:016x}.idx"


def numbers_in(folder: Path) -> tuple[list[int], list[int]]:
    """Of what by its name is a segment, and of what is an index; ascending."""
    names = [found for found in map(NAME.fullmatch, os.listdir(folder)) if found]
    return _numbers(names, "kvf"), _numbers(names, "idx")


def _numbers(names: list[re.Match[str]], kind: str) -> list[int]:
    numbers = (int(found[1], 16) for found in names if found[2] == kind)
    return sorted(number for number in numbers if number < SEGMENTS)


def begin(
    folder: Path, number: int, identity: bytes, most: int, direct: int, disk: Disk
) -> Segment:
    """A new segment without rows. FileExistsError: the name is taken; OSError: it is not there."""
    path = path_of(folder, number)
    fd = disk.open(path, WRITE | os.O_EXCL | direct, 0o600)
    segment = Segment(number, secrets.randbits(64), BLOCK, fd)
    head = np.zeros((), HEAD)
    head["magic"], head["version"], head["number"] = MAGIC, VERSION, number
    head["identity"], head["birth"] = np.frombuffer(identity, np.uint8), segment.birth
    head["most"] = most
    block = Aligned(BLOCK).bytes
    block[: HEAD.itemsize] = np.frombuffer(summed(head).tobytes(), np.uint8)
    try:
        write_all(disk, fd, block, 0)
    except OSError:
        segment.end()
        disk.unlink(path)
        raise
    return segment


def read_segment(folder: Path, number: int, identity: bytes) -> Segment | None:
    """None: it is not one of ours, or nothing was written to it yet. Raises Damaged."""
    try:
        fd = os.open(path_of(folder, number), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in NO_FILE:
            return None
        raise Damaged from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return None
        data, size = os.pread(fd, HEAD.itemsize, 0), status.st_size
    except OSError:
        raise Damaged from None
    finally:
        os.close(fd)
    head: Head = np.frombuffer(data.ljust(HEAD.itemsize, b"\0"), HEAD).reshape(())
    if int(head["magic"]) != MAGIC or not sums_up(head):
        if size > BLOCK or os.path.lexists(index_of(folder, number)):
            raise Damaged
        return None
    if int(head["version"]) != VERSION:
        return None
    if head["identity"].tobytes() != identity or int(head["number"]) != number:
        return None
    return Segment(number, int(head["birth"]), min(size, int(head["most"])))


def write_index(folder: Path, segment: Segment, rows: Rows, disk: Disk) -> None:
    head = np.zeros((), INDEX_HEAD)
    head["magic"], head["version"], head["birth"] = INDEX_MAGIC, VERSION, segment.birth
    head["bytes"], head["rows"] = segment.bytes, len(rows)
    head["rows_crc32c"] = _core.crc32c(rows.view(np.uint8))
    data = np.frombuffer(summed(head).tobytes() + rows.tobytes(), np.uint8)
    path = index_of(folder, segment.number)
    beside = path.with_suffix(".new")
    fd = disk.open(beside, WRITE | os.O_TRUNC, 0o600)
    try:
        write_all(disk, fd, data, 0)
    finally:
        os.close(fd)
    disk.rename(beside, path)


def read_index(folder: Path, segment: Segment) -> Rows | None:
    """Its rows, if there is an index of this very file that can be believed."""
    most = INDEX_HEAD.itemsize + segment.bytes  # no row is without its like in the segment
    data = read_small(index_of(folder, segment.number), most) or b""
    if len(data) <= INDEX_HEAD.itemsize or (len(data) - INDEX_HEAD.itemsize) % ROW.itemsize:
        return None
    head: Head = np.frombuffer(data, INDEX_HEAD, 1).reshape(())
    rows: Rows = np.frombuffer(data, ROW, offset=INDEX_HEAD.itemsize)
    if int(head["magic"]) != INDEX_MAGIC or not sums_up(head) or int(head["version"]) != VERSION:
        return None
    if int(head["birth"]) != segment.birth or int(head["bytes"]) != segment.bytes:
        return None
    if int(head["rows"]) != len(rows) or int(head["rows_crc32c"]) != _core.crc32c(
        rows.view(np.uint8)
    ):
        return None
    return rows if are_rows(rows, BLOCK, segment.bytes) else None
