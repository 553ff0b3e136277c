"""A node's ledger behind a clerk, and desks of users in files to share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvferry import _core
from tests._core.tables import EPOCH, aligned, mapped, memory_file

Words = NDArray[np.uint64]
Columns = tuple[Words, Words, Words]

ROOM = 4096
STORED, INDEX_FULL, UNKNOWN = 0, 12, 14  # of the answers


def after(seconds: float) -> int:
    return time.monotonic_ns() + int(seconds * 1e9)


def digests_of(keys: NDArray[np.uint64]) -> Words:
    """Such that both buckets of each are spread over the index."""
    mixed = keys * np.uint64(0x9E3779B97F4A7C15)
    return np.ascontiguousarray(np.stack((mixed ^ mixed >> np.uint64(32), mixed), axis=1))


def columns_of(first: int, attempts: Words) -> Columns:
    """Keys first, first + 1, ..., as long as their number, modulo the room."""
    keys = np.arange(first, first + len(attempts), dtype=np.uint64)
    return attempts, digests_of(keys), keys % np.uint64(ROOM)


@dataclass
class Desk:
    """What a user has: files of its desk and of the node's bell, and both mapped."""

    fds: tuple[int, int]

    def __post_init__(self) -> None:
        self.memory, self.bell = map(mapped, self.fds)
        self.desk = _core.Desk(self.memory.ctypes.data, len(self.memory), self.bell.ctypes.data)

    @classmethod
    def of(cls, pid: int, numbers: list[int]) -> Desk:
        """Of another process, which has these descriptors."""
        first, second = (os.open(f"/proc/{pid}/fd/{n}", os.O_RDWR) for n in numbers)
        return cls((first, second))

    def close(self) -> None:
        """Its memory is unmapped."""
        for fd in self.fds:
            os.close(fd)
        vars(self).clear()


class Office:
    """The node: users 1, 2, ... have desks."""

    def __init__(self, users: int = 1, entries: int = 1 << 14, capacity: int = 1 << 15) -> None:
        self.memory = aligned(_core.index_bytes(capacity))
        self.index = _core.Index(self.memory.ctypes.data, len(self.memory), EPOCH)
        self.ledger = _core.Ledger(self.index, entries)
        self.bell_fd = memory_file(4096)
        self.bell = mapped(self.bell_fd)
        self.clerk = _core.Clerk(self.ledger, self.bell.ctypes.data)
        self.desks: list[Desk] = []
        for _ in range(users):
            self.add()

    def add(self) -> int:
        """Another user; its number."""
        self.desks.append(Desk((memory_file(_core.desk_bytes()), os.dup(self.bell_fd))))
        user, memory = len(self.desks), self.desks[-1].memory
        self.clerk.seat(user, memory.ctypes.data, len(memory))
        return user

    def open(self, user: int, first: int, count: int) -> Columns:
        """What such a user would commit, after writing objects into extents of its own."""
        offsets = np.arange(first, first + count) * ROOM
        with self.clerk:
            attempts = self.ledger.open(user, offsets, np.full(count, ROOM))
        return columns_of(first, attempts)

    def check_stored(self, first: int, count: int) -> None:
        """All these keys are in the index, each in its place."""
        keys = np.arange(first, first + count, dtype=np.uint64)
        with self.clerk:
            slots = self.index.find(digests_of(keys))
            assert (slots >= 0).all()
            found = self.index.read(slots)
        assert found["offset"].tolist() == (keys * np.uint64(ROOM)).tolist()
        assert found["length"].tolist() == (keys % np.uint64(ROOM)).tolist()

    def absent(self, first: int, count: int) -> bool:
        with self.clerk:
            found = self.index.find(digests_of(np.arange(first, first + count, dtype=np.uint64)))
        return bool((found == _core.NOWHERE).all())

    def forget(self) -> None:
        """Nothing is in the index any more."""
        with self.clerk:
            there = self.index.scan(0, self.index.capacity)
            slots, generations = there["slot"].astype(np.int64), there["generation"].copy()
            assert self.index.mark(slots, generations).all()
            assert self.index.remove(slots, generations).all()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """A thread answers the desks, and takes in what arrives when the ledger asks for it."""
        over = threading.Event()
        thread = threading.Thread(target=self._serve, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            self.clerk.wake()
            thread.join()

    def _serve(self, over: threading.Event) -> None:
        while not over.is_set():
            for user, tray in self.clerk.serve():
                self.pay(user, tray)

    def pay(self, user: int, tray: int) -> bool:
        """As the catalog does: what arrived is taken in, then there is room again."""
        with self.clerk:
            self.ledger.arrivals()
            columns = self.clerk.records(user, tray)
            return self.clerk.answer(user, tray, self.ledger.commit(user, *columns))

    def close(self) -> None:
        for desk in self.desks:
            desk.close()
        os.close(self.bell_fd)
        vars(self).clear()
