"""What writes to a folder, and memory that may be written past the page cache."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import numpy as np
from typing_extensions import Buffer

from ...errors import DeviceError
from .record import BLOCK, Bytes, up

__all__ = ["Aligned", "Disk", "disk_errors", "is_direct", "read_small", "write_all"]

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Disk(Protocol):
    """All that changes a folder goes through this: the os module, or what a test lets fail."""

    def open(self, path: Path, flags: int, mode: int, /) -> int: ...
    def pwrite(self, fd: int, data: Buffer, at: int, /) -> int: ...
    def fdatasync(self, fd: int, /) -> None: ...
    def fsync(self, fd: int, /) -> None: ...
    def ftruncate(self, fd: int, length: int, /) -> None: ...
    def rename(self, old: Path, new: Path, /) -> None: ...
    def unlink(self, path: Path, /) -> None: ...


class Aligned:
    """Zeroed memory of whole pages: `bytes`, at `address` as long as this is there."""

    def __init__(self, size: int) -> None:
        memory = mmap.mmap(-1, up(size, BLOCK), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # each small page costs more than to sum it up
            memory.madvise(mmap.MADV_HUGEPAGE)
        self.bytes: Bytes = np.frombuffer(memory, np.uint8)
        self.address: int = self.bytes.ctypes.data

    def __len__(self) -> int:
        return len(self.bytes)


def write_all(disk: Disk, fd: int, data: Bytes, at: int) -> None:
    """Raises OSError; then any part of it may be there."""
    while len(data):
        done = disk.pwrite(fd, data, at)
        if done <= 0:
            raise OSError(errno.EIO, "nothing was written")
        data, at = data[done:], at + done


def read_small(path: Path, most: int) -> bytes | None:
    """All of a plain file of at most so many bytes. None: it is none, or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _all_of(fd, most)
    except OSError:
        return None
    finally:
        os.close(fd)


def _all_of(fd: int, most: int) -> bytes | None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        return None
    data = bytearray()
    while part := os.pread(fd, status.st_size - len(data), len(data)):
        data += part
    return bytes(data) if len(data) == status.st_size else None


def is_direct(disk: Disk, path: Path) -> bool:
    """Can this file, and its neighbours, be read past the page cache?"""
    try:
        fd = disk.open(path, os.O_RDONLY | os.O_DIRECT, 0)
    except OSError:
        return False
    try:
        os.preadv(fd, [Aligned(BLOCK).bytes], 0)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """What the system refuses becomes a DeviceError: "ssd_full" or "ssd_io"."""
    try:
        yield
    except OSError as error:
        cause = "ssd_full" if error.errno in NO_SPACE else "ssd_io"
        raise DeviceError(f"{doing}: {error.strerror}", cause=cause, code=error.errno) from error
