"""Memory that was allocated or registered, and what of it transfers may name."""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left
from typing import NamedTuple

import kvferry as kf
from kvferry.memory import memory_at

from .codes import FAILED, PARAM_INVALID, RESOURCE_EXHAUSTED, UNSUPPORTED, MemType
from .failures import Refused
from .ranges import Ranges

__all__ = ["Memory"]

TIB = 1 << 40


class Registration(NamedTuple):
    """A range that transfers may name.

    region  that was made for it; None: it lies in memory that malloc_mem gave
    """

    address: int
    length: int
    region: kf.Region | None


class Memory:
    """The ranges of one engine. Thread-safe.

    Changes queue behind each other, also while peers are told of one; transfers look at `ranges`,
    which is frozen and replaced as a whole.

    capacity  bytes that may be allocated in all
    """

    def __init__(self, engine: kf.Engine, capacity: int) -> None:
        self.ranges = Ranges([])
        self._engine = engine
        self._left = capacity
        self._changing = threading.Lock()
        self._handles = itertools.count(1)
        self._registered: dict[int, Registration] = {}
        self._order: list[int] = []  # their handles, by address
        self._allocated: dict[int, kf.Region] = {}

    def allocate(self, kind: MemType, size: int) -> int:
        """The address of `size` zeroed bytes that peers can map."""
        _check_kind(kind)
        with self._changing:
            if size > self._left:
                raise Refused(
                    RESOURCE_EXHAUSTED,
                    f"{size} bytes are more than fabric_memory.max_capacity leaves: {self._left}",
                )
            region = self._engine.allocate(f"malloc-{next(self._handles)}", size)
            self._allocated[region.address] = region
            self._left -= size
        return region.address

    def free(self, address: int) -> None:
        """Give back what `allocate` gave. Peers let go of it first."""
        with self._changing:
            region = self._allocated.get(address)
            if region is None:
                raise Refused(PARAM_INVALID, f"malloc_mem gave no memory at {address:#x}")
            for each in self._registered.values():
                if _inside(region, each.address, each.length):
                    raise Refused(FAILED, f"{_named(each)} is registered: deregister it first")
            self._engine.unregister(region)
            del self._allocated[address]
            self._left += region.length

    def register(self, address: int, length: int, kind: MemType) -> int:
        """A handle, which is never 0; for the same range again the same."""
        _check_kind(kind)
        if not length or not address or address + length > 1 << 64:
            raise Refused(PARAM_INVALID, f"{length} bytes at {address:#x} are no memory")
        with self._changing:
            at = bisect_left(self._order, address, key=lambda handle: self._at(handle).address)
            for handle in self._order[max(at - 1, 0) : at + 1]:
                known = self._at(handle)
                if (known.address, known.length) == (address, length):
                    return handle
                if address < known.address + known.length and known.address < address + length:
                    raise Refused(
                        PARAM_INVALID, f"{length} bytes at {address:#x} overlap {_named(known)}"
                    )
            handle = next(self._handles)
            self._registered[handle] = self._make(address, length)
            self._order.insert(at, handle)
            self._publish()
        return handle

    def deregister(self, handle: int) -> None:
        """Nothing for a handle that is over. Waits for transfers over the range, and for peers."""
        with self._changing:
            known = self._registered.get(handle)
            if known is None:
                return
            if known.region is not None:
                self._engine.unregister(known.region)
            del self._registered[handle]
            self._order.remove(handle)
            self._publish()

    def _at(self, handle: int) -> Registration:
        return self._registered[handle]

    def _make(self, address: int, length: int) -> Registration:
        if any(_inside(region, address, length) for region in self._allocated.values()):
            return Registration(address, length, None)
        view = memory_at(address, length)
        if view.readonly:
            raise Refused(
                PARAM_INVALID, f"{length} bytes at {address:#x} are not all writable memory"
            )
        region = self._engine.register(f"{address:#x}+{length:#x}", view)
        return Registration(address, length, region)

    def _publish(self) -> None:
        self.ranges = Ranges((each.address, each.length) for each in self._registered.values())


def _check_kind(kind: MemType) -> None:
    if kind is MemType.MEM_DEVICE:
        raise Refused(
            UNSUPPORTED, "there is no device here: MEM_DEVICE is refused, MEM_HOST is served"
        )


def _inside(region: kf.Region, address: int, length: int) -> bool:
    return region.address <= address and address + length <= region.address + region.length


def _named(known: Registration) -> str:
    return f"the range of {known.length} bytes at {known.address:#x}"
