"""Managed buffers: pieces of own regions, which peers can map.

A slab is one region of an engine with a SubAllocator over it. One is made when no other has room,
of SLAB bytes or as long as what is asked for; the longer ones are given back when they are empty.
"""

from __future__ import annotations

import threading
from operator import index

from kvferry.engine import Engine
from kvferry.errors import Full, UsageError
from kvferry.memory import Region, SubAllocator

__all__ = ["ALIGN", "SLAB", "Slabs"]

SLAB = 64 << 20  # bytes
ALIGN = 4096  # what direct I/O and the kernel's copies like best


class _Slab:
    """One region, and which of it is taken."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.pieces = SubAllocator(region.length, ALIGN)

    def holds(self, address: int) -> bool:
        return self.region.address <= address < self.region.address + self.region.length

    def take(self, length: int) -> int | None:
        try:
            return self.region.address + self.pieces.take(length)
        except Full:
            return None


class Slabs:
    """Hands out memory of `engine`, which outlives it. Thread-safe.

    name  begins the names of its regions
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._lock = threading.Lock()
        self._slabs: list[_Slab] = []
        self._made = 0

    @property
    def used(self) -> int:
        """Bytes handed out."""
        with self._lock:
            return sum(slab.pieces.used for slab in self._slabs)

    def allocate(self, length: int) -> int:
        """The address of `length` bytes, the caller's until `free`. Zeroed when never used before.

        Blocks while a new slab is brought in. Raises UsageError for no bytes, NoMemory.
        """
        length = index(length)
        if length <= 0:
            raise UsageError(f"cannot allocate {length} bytes", cause="bad_size")
        with self._lock:
            for slab in self._slabs:
                address = slab.take(length)
                if address is not None:
                    return address
            address = self._grow(length).take(length)
        assert address is not None, "a slab is as long as what it is made for"
        return address

    def free(self, address: int) -> None:
        """Take back what `allocate` returned. Raises UsageError for any other address."""
        address = index(address)
        with self._lock:
            slab = self._holding(address)
            try:
                slab.pieces.give(address - slab.region.address)
            except UsageError:
                raise _unknown(address) from None
            if slab.region.length == SLAB or slab.pieces.used:
                return
            self._slabs.remove(slab)
        self._engine.unregister(slab.region)

    def _grow(self, length: int) -> _Slab:
        size = max(SLAB, -(-length // ALIGN) * ALIGN)
        self._made += 1
        slab = _Slab(self._engine.allocate(f"{self._name}-{self._made}", size))
        self._slabs.append(slab)
        return slab

    def _holding(self, address: int) -> _Slab:
        for slab in self._slabs:
            if slab.holds(address):
                return slab
        raise _unknown(address)


def _unknown(address: int) -> UsageError:
    return UsageError(f"no buffer was allocated at {address:#x}", cause="unknown_address")
