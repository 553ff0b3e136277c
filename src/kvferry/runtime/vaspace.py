"""Carves one reservation of addresses into blocks, for every mapping of a process.

    base            first                                             end
      |...unused.....|####|####|    |    |####|    |    |    |....unused.|
                      taken     free                           block: 1 GiB

First fit, whole blocks. Why one for all: docs/design/address-space.md.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from ..errors import NoMemory, UsageError

__all__ = ["BLOCK", "VaSpace", "sizes_to_try"]

BLOCK = 1 << 30


class VaSpace:
    """The whole blocks inside `capacity` bytes of addresses from `base` on. Owns no memory.

    base      any address; blocks begin at the first multiple of `block` from there on
    capacity  bytes
    block     bytes, a power of two

    Thread-safe. `give` takes no lock, so the garbage collector may call it at any point, also while
    this very thread stands in `take`. Raises UsageError when not one block fits.
    """

    def __init__(self, base: int, capacity: int, block: int = BLOCK) -> None:
        _check_power("block", block)
        self.block = block
        self.first = -(-base // block) * block
        self._count = (base + capacity - self.first) // block
        if base < 0 or self._count <= 0:
            raise UsageError(
                f"{capacity} bytes from {base:#x} on hold no block of {block} bytes",
                cause="bad_range",
            )
        self._free = (1 << self._count) - 1  # bit i: block i is free
        self._taken: dict[int, int] = {}  # address -> blocks
        self._given: deque[tuple[int, int]] = deque()  # not yet among the free ones
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """Bytes that can be taken in all."""
        return self._count * self.block

    @property
    def available(self) -> int:
        """Bytes that are free."""
        with self._lock:
            return self._swept().bit_count() * self.block

    @property
    def largest(self) -> int:
        """Bytes of the longest hole."""
        with self._lock:
            return _longest(self._swept()) * self.block

    def take(self, size: int, align: int | None = None) -> int:
        """The lowest address of `size` bytes that are the caller's until `give`.

        Rounded up to whole blocks. `align` is a power of two, at least a block when left out.
        Raises NoMemory with the cause ``no_addresses`` when no hole is long enough, UsageError for
        a size or an alignment that is none.
        """
        if size <= 0:
            raise UsageError(f"cannot take {size} bytes of addresses", cause="bad_size")
        align = align or self.block
        _check_power("alignment", align)
        blocks = -(-size // self.block)
        with self._lock:
            starts = _starts(self._swept(), blocks) & self._aligned(align)
            if not starts:
                raise self._exhausted(size, align)
            index = _lowest(starts)
            self._free &= ~(((1 << blocks) - 1) << index)
            address = self.first + index * self.block
            self._taken[address] = blocks
        return address

    def give(self, address: int) -> None:
        """Take back what `take` returned. UsageError when nothing is taken at `address`."""
        blocks = self._taken.pop(address, None)
        if blocks is None:
            raise UsageError(f"no addresses are taken at {address:#x}", cause="not_taken")
        self._given.append((address, blocks))

    def _swept(self) -> int:
        """The free blocks, with those that were given back meanwhile. Under the lock."""
        while self._given:
            address, blocks = self._given.popleft()
            self._free |= ((1 << blocks) - 1) << ((address - self.first) // self.block)
        return self._free

    def _aligned(self, align: int) -> int:
        """A bit for each block whose address is a multiple of `align`; -1 is all of them."""
        step = align // self.block
        if step <= 1:
            return -1
        skip = -(self.first // self.block) % step
        # Base two, because int() is linear in it.
        every = int(("1" + "0" * (step - 1)) * (self._count // step) + "1", 2)
        return every << skip

    def _exhausted(self, size: int, align: int) -> NoMemory:
        free, largest = (n * self.block for n in (self._free.bit_count(), _longest(self._free)))
        return NoMemory(
            f"asked for {size} bytes of addresses at a multiple of {align}: {free} of"
            f" {self.capacity} are available, {largest} in one piece",
            cause="no_addresses",
        )


def sizes_to_try(capacity: int, block: int = BLOCK) -> Iterator[int]:
    """What to ask a host for that may grant less: `capacity`, then halves, down to one block."""
    count = capacity // block
    while count:
        yield count * block
        count //= 2


def _starts(free: int, length: int) -> int:
    """A bit for each place where `length` free ones begin. Doubles what is known of each place."""
    known = 1
    while known < length and free:
        more = min(known, length - known)
        free &= free >> more
        known += more
    return free


def _longest(free: int) -> int:
    return max(map(len, f"{free:b}".split("0")))


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _check_power(what: str, number: int) -> None:
    if number <= 0 or number & (number - 1):
        raise UsageError(f"{what} is {number}, not a power of two", cause="bad_size")
