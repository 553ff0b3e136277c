"""Memory for an index, a pool and the lines of a user: of this process, or of files to share."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvferry import _core

SECRET = bytes(range(16))
EPOCH = 5


def aligned(size: int) -> NDArray[np.uint8]:
    """Zeroed, at a multiple of 64."""
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


def mapped(fd: int, writable: bool = True) -> NDArray[np.uint8]:
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return np.frombuffer(mmap.mmap(fd, 0, mmap.MAP_SHARED, protection), np.uint8)


def memory_file(size: int) -> int:
    fd = os.memfd_create("kvferry-test", os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    return fd


@dataclass
class Memory:
    index: NDArray[np.uint8]
    pool: NDArray[np.uint8]
    lines: NDArray[np.uint8]

    @classmethod
    def make(cls, capacity: int = 64, pool: int = 1 << 16, lines: int = 4) -> Memory:
        sizes = _core.index_bytes(capacity), pool, _core.lines_bytes(lines)
        return cls(*map(aligned, sizes))

    def node(self) -> _core.Index:
        return _core.Index(self.index.ctypes.data, len(self.index), EPOCH)

    def users(self) -> _core.Lines:
        return _core.Lines(self.lines.ctypes.data, len(self.lines))

    def reader(self, lines: _core.Lines, epoch: int = EPOCH) -> _core.IndexReader:
        index, pool = self.index, self.pool
        return _core.IndexReader(
            index.ctypes.data, len(index), epoch, pool.ctypes.data, len(pool), lines, SECRET
        )


def words(*each: int) -> NDArray[np.uint64]:
    return np.array(each, np.uint64)


def slots(*each: int) -> NDArray[np.int64]:
    return np.array(each, np.int64)


def digests(*keys: str) -> NDArray[np.uint64]:
    return _core.digest(keys, SECRET)


def put(
    index: _core.Index, digests: NDArray[np.uint64], first: int, offset: int = 0, length: int = 0
) -> list[int]:
    """Insert with generations first, first + 1, ...; all in one extent."""
    n = len(digests)
    generations = np.arange(first, first + n, dtype=np.uint64)
    place = (np.full(n, value, np.uint64) for value in (offset, length, length, 0))
    found: list[int] = index.insert(digests, generations, *place).tolist()
    return found
