"""Registered memory that is used again and again."""

from __future__ import annotations

import mmap
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from kvferry._core import View

__all__ = ["BufferLease", "BufferLeaseView", "BufferPool"]

SMALLEST = 64 << 10  # bytes of the smallest buffers
ALIGN = 8 << 20


class _Region:
    """Memory of one size class, mapped as long as anybody refers to it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = np.frombuffer(mmap.mmap(-1, size), np.uint8)
        self.address: int = self.memory.ctypes.data


class BufferLease:
    """A buffer until it is released; may be used as a context. Not shared between threads.

    ptr, size, buffer  where it begins, its bytes, and a writable view of them
    """

    def __init__(self, region: _Region, size: int, back: Callable[[_Region], None]) -> None:
        self.ptr = region.address
        self.size = size
        self._region: _Region | None = region
        self._view = View(region.address, size, False, region)
        self._back = back

    @property
    def buffer(self) -> memoryview:
        """Raises BufferError after release."""
        if self._region is None:
            raise BufferError("the buffer was released")
        return memoryview(self._view)

    def release(self) -> None:
        """Give it back. Idempotent. Raises RuntimeError while there are views of it."""
        if self._view.exports:
            raise RuntimeError("there are views of the buffer still")
        region, self._region = self._region, None
        if region is not None:
            self._back(region)

    def __enter__(self) -> BufferLease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __del__(self) -> None:
        if self._region is not None and not self._view.exports:
            self.release()


BufferLeaseView = BufferLease


class BufferPool:
    """Buffers that are registered with a store, by size classes: powers of two from
    `min_size_class` on. Thread-safe.

    max_bytes            of all of them; 0: no limit
    max_size_class       larger ones are made for one use
    block_on_exhaustion  wait, for default_timeout seconds if it is given, until one is free
    max_regions          how many buffers there may be
    prewarm_size, prewarm_count  see prewarm
    alignment            a hint: buffers begin at pages

    Raises RuntimeError when the store was not set up.
    """

    def __init__(
        self,
        store: Any,
        max_bytes: int = 0,
        min_size_class: int = SMALLEST,
        max_size_class: int | None = None,
        alignment: int = ALIGN,
        block_on_exhaustion: bool = True,
        default_timeout: float | None = None,
        max_regions: int | None = None,
        prewarm_size: int | None = None,
        prewarm_count: int = 0,
    ) -> None:
        if store is None or store.health_check() == 1:
            raise RuntimeError("the store was not set up")
        if max_bytes < 0 or alignment < 1 or alignment & (alignment - 1):
            raise RuntimeError("max_bytes and alignment: no such sizes")
        self._store = store
        self._max_bytes, self._max_regions = max_bytes, max_regions
        self._smallest, self._largest = max(min_size_class, mmap.PAGESIZE), max_size_class
        self._blocks, self._timeout = block_on_exhaustion, default_timeout
        self._changed = threading.Condition()
        self._free: dict[int, list[_Region]] = defaultdict(list)
        self._bytes = self._regions = self._leased = 0
        if prewarm_size is not None:
            self.prewarm(prewarm_size, prewarm_count)

    def acquire(
        self, size: int, block: bool | None = None, timeout: float | None = None
    ) -> BufferLease:
        """A buffer of so many bytes, the caller's until it is released.

        Raises RuntimeError when there is none and it is not waited for, or not any longer.
        """
        room = self._class_of(size)
        if self._max_bytes and room > self._max_bytes:
            raise RuntimeError(f"{size} bytes are more than the pool may have")
        patience = self._timeout if timeout is None else timeout
        deadline = None if patience is None else time.monotonic() + patience
        with self._changed:
            while (region := self._found(room)) is None:
                left = None if deadline is None else deadline - time.monotonic()
                if not (self._blocks if block is None else block) or (
                    left is not None and left <= 0
                ):
                    raise RuntimeError("all buffers of the pool are in use")
                self._changed.wait(left)
            self._leased += 1
        return BufferLease(region, size, self._back)

    def buffer(
        self, size: int, block: bool | None = None, timeout: float | None = None
    ) -> BufferLease:
        """The same, to be entered."""
        return self.acquire(size, block, timeout)

    def prewarm(self, size: int, count: int) -> None:
        """Make so many buffers of such a size, if there is room."""
        leases = [self.acquire(size, block=False) for _ in range(count)]
        for lease in leases:
            lease.release()

    def close(self) -> None:
        """Give the memory back. Raises RuntimeError while buffers are in use."""
        with self._changed:
            if self._leased:
                raise RuntimeError(f"{self._leased} buffers are in use")
            for room in list(self._free):
                self._drop(room, len(self._free[room]))

    # ---- inside, under the lock ----

    def _class_of(self, size: int) -> int:
        if size < 0:
            raise TypeError(f"{size} bytes are no size")
        return max(self._smallest, 1 << (size - 1).bit_length() if size else 0)

    def _found(self, room: int) -> _Region | None:
        if self._free[room]:
            return self._free[room].pop()
        for other in [each for each in self._free if self._full(room)]:
            self._drop(other, len(self._free[other]))
        return None if self._full(room) else self._made(room)

    def _full(self, room: int) -> bool:
        beyond = self._max_bytes and self._bytes + room > self._max_bytes
        return bool(beyond) or self._regions == self._max_regions

    def _made(self, room: int) -> _Region:
        region = _Region(room)
        if self._store.register_buffer(region.address, room):
            raise RuntimeError("the buffer could not be registered")
        self._bytes, self._regions = self._bytes + room, self._regions + 1
        return region

    def _drop(self, room: int, count: int) -> None:
        for _ in range(count):
            self._store.unregister_buffer(self._free[room].pop().address)
            self._bytes, self._regions = self._bytes - room, self._regions - 1

    def _back(self, region: _Region) -> None:
        with self._changed:
            self._leased -= 1
            self._free[region.size].append(region)
            if self._largest is not None and region.size > self._largest:
                self._drop(region.size, 1)
            self._changed.notify()
