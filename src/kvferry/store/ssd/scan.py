"""Reading a segment through that has no index: what of it is whole."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import _core
from .disk import Aligned
from .record import BLOCK, ROW, Rows, ends_of, read_head, read_rows, up, values_of
from .segment import Segment, path_of

__all__ = ["Scanned", "Scanner"]

CHUNK = 2 << 20
AHEAD = 3  # chunks that are under way


class Scanned(NamedTuple):
    """rows   of whole runs, `at` in the segment
    end    the byte at which the last of these runs ends
    given  the disk gave all that was asked of it
    """

    rows: Rows
    end: int
    given: bool = True


class Scanner:
    """Scans one segment after the other; its memory is as large as the largest. Close it.

    Another thread reads ahead of the one that looks at what was read. One thread at a time.
    """

    def __init__(self, direct: int) -> None:
        self._direct = direct
        self._memory = Aligned(BLOCK)
        self._pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="kvferry-scan")

    def scan(self, folder: Path, segment: Segment) -> Scanned:
        """Up to the first run that is not whole, or that cannot be read. Every checksum is right,
        and sequences grow."""
        if len(self._memory) < segment.bytes:
            self._memory = Aligned(up(segment.bytes, BLOCK))
        fd = os.open(path_of(folder, segment.number), os.O_RDONLY | os.O_NOFOLLOW | self._direct)
        ahead = _Ahead(fd, segment.bytes, self._memory, self._pool)
        try:
            found = list(_runs(ahead, segment))
        finally:
            ahead.wait()
            os.close(fd)
        rows = [each.rows for each in found]
        end = found[-1].end if found else BLOCK
        return Scanned(np.concatenate(rows) if rows else np.zeros(0, ROW), end, ahead.given)

    def close(self) -> None:
        self._pool.shutdown()


class _Ahead:
    """The first bytes of a file, in memory, which grow as they are asked for."""

    def __init__(self, fd: int, size: int, memory: Aligned, pool: ThreadPoolExecutor) -> None:
        self.memory = memory
        self.given = True
        self._fd = fd
        self._size = size
        self._pool = pool
        self._there = 0
        self._asked = 0
        self._coming: deque[Future[int]] = deque()

    def has(self, end: int) -> bool:
        """Wait for all up to there. False: it is not in the file, or the disk does not give it."""
        while self._there < end:
            while len(self._coming) < AHEAD and self._asked < self._size:
                self._coming.append(self._pool.submit(self._read, self._asked))
                self._asked += CHUNK
            if not self._coming:
                return False
            got = self._coming.popleft().result()
            self._there += got
            if got < CHUNK:
                self._asked = self._size
                self.wait()
        return True

    def wait(self) -> None:
        """Nobody writes into the memory any more."""
        while self._coming:
            self._coming.popleft().result()

    def _read(self, at: int) -> int:
        """How many bytes came; fewer than a chunk at the end."""
        room = self.memory.bytes[at : at + CHUNK]
        try:
            return os.preadv(self._fd, [room], at)
        except OSError:
            self.given = False
            return 0


def _runs(ahead: _Ahead, segment: Segment) -> Iterator[Scanned]:
    at, sequence = BLOCK, -1
    while (run := _run(ahead, segment, at)) is not None:
        if int(run.rows["sequence"][0]) <= sequence:
            return
        yield run
        at, sequence = run.end, int(run.rows["sequence"][-1])


def _run(ahead: _Ahead, segment: Segment, at: int) -> Scanned | None:
    """The run that begins here. None: no whole one does."""
    if not ahead.has(at + BLOCK):
        return None
    run = ahead.memory.bytes[at:]
    head = read_head(run, segment.birth, at, segment.bytes - at)
    if head is None or not ahead.has(at + ends_of(int(head["rows"]))):
        return None
    rows = read_rows(head, run)
    if rows is None or not ahead.has(at + int(head["bytes"])):
        return None
    rows["at"] += np.uint64(at)
    values = values_of(rows)
    addresses = values["at"] + np.uint64(ahead.memory.address)
    crcs = _core.crc32c_all(addresses, np.ascontiguousarray(values["length"]))
    return Scanned(rows, at + int(head["bytes"])) if (crcs == values["crc32c"]).all() else None
