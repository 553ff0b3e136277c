"""The addresses of a runtime: one large reservation, made once and carved into blocks.

start                            where the A3 is asked for it, by aclrtReserveMemAddressNoUCMemory;
  |####|####|    |    |  ...  |  elsewhere aclrtReserveMemAddress chooses the place
   a block: 1 GiB
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from ...errors import Error, NoMemory, Unsupported, UsageError
from ..owners import Reservation
from ..vaspace import BLOCK, VaSpace, sizes_to_try
from .device import Device
from .enums import MemPgType

__all__ = ["CAPACITY", "START", "Addresses", "check_range"]

TERA = 1 << 40
START = 40 * TERA
CAPACITY = 32 * TERA

# Where reservations of the A3 may lie.
LOWEST, END = 40 * TERA, 224 * TERA

PAGES = MemPgType.HUGE_PAGE_TYPE


class Addresses:
    """Hands out reservations; the large one goes when the device does. Thread-safe.

    start     of the A3's reservation: a multiple of 1 GiB, 40T to 224T
    capacity  bytes, whole GiB; halved until the machine grants them. Host memory takes them twice
    notes     what it did not grant, a sentence each
    """

    def __init__(self, device: Device, start: int, capacity: int) -> None:
        self._device = device
        self.notes: list[str] = []
        address, size = self._obtain(start, capacity)
        self._space = VaSpace(address, size)
        if size < capacity:
            self.notes.append(f"{size} bytes of addresses were granted, not {capacity}")

    @property
    def capacity(self) -> int:
        """Bytes that can be reserved in all."""
        return self._space.capacity

    def reserve(self, size: int, at: int | None = None) -> Reservation:
        """Whole blocks; with `at` a reservation of its own, which only 16T to 24T allow.

        Blocks are bookkeeping, and do not keep the device: what is mapped there does.
        """
        if at is not None:
            return self._reserve_at(size, at)
        address = self._space.take(size)
        return Reservation(address, size, partial(self._space.give, address))

    def _reserve_at(self, size: int, at: int) -> Reservation:
        device = self._device
        release = partial(device.call, "aclrtReleaseMemAddress")
        with device.current(), ExitStack() as failed:
            failed.callback(device.keep())
            try:
                address = device.library.make(
                    failed, release, "aclrtReserveMemAddress", size, 0, at, PAGES
                )
            except NoMemory as error:
                raise NoMemory(
                    "the range is in use",
                    cause="address_taken",
                    range=(at, size),
                    code=error.code,
                    detail=error.detail,
                ) from error
            undo = failed.pop_all()
        return Reservation(address, size, undo.close)

    def _obtain(self, start: int, capacity: int) -> tuple[int, int]:
        """The address and the size that the library grants."""
        for size in sizes_to_try(capacity):
            try:
                return self._grant(start, size), size
            except NoMemory as error:
                refused = error
        raise refused

    def _grant(self, start: int, size: int) -> int:
        """In the A3's way; where there is none, or the place is taken, as the library chooses."""
        try:
            return self._keep("aclrtReserveMemAddressNoUCMemory", size, start)
        except Unsupported:
            return self._keep("aclrtReserveMemAddress", size)
        except Error as error:
            self.notes.append(f"no {size} bytes of addresses from {start:#x} on: {error.args[0]}")
            return self._keep("aclrtReserveMemAddress", size)

    def _keep(self, name: str, size: int, at: int | None = None) -> int:
        return self._device.make("aclrtReleaseMemAddress", name, size, 0, at, PAGES)


def check_range(start: int, capacity: int) -> None:
    if capacity <= 0 or capacity % BLOCK or start % BLOCK or not LOWEST <= start <= END - capacity:
        raise UsageError(
            f"{capacity} bytes of addresses from {start:#x} on are not whole GiB in 40T to 224T",
            cause="bad_range",
            range=(start, capacity),
        )
