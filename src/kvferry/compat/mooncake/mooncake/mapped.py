"""Memory of this process by address alone: may it be touched, and the bytes of it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from kvferry.errors import UsageError

__all__ = ["rights", "view"]

ADDRESSES = 1 << 64


def rights(maps: Iterable[str], address: int, length: int) -> str:
    """ "rw", "r" or "", whatever holds for every byte of a range. `maps` is /proc/self/maps."""
    least, at = "rw", address
    for line in maps:
        span, flags, *_ = line.split(maxsplit=2)
        low, high = (int(end, 16) for end in span.split("-"))
        if high <= at:
            continue
        if low > at or flags[0] != "r":
            return ""
        least = least if flags[1] == "w" else "r"
        at = high
        if at >= address + length:
            return least
    return ""


def view(address: int, length: int) -> memoryview:
    """The bytes at an address, which the caller keeps mapped as long as the view is used.

    Read-only where the memory is. Raises UsageError when not all of it may be read.
    """
    if length <= 0 or not 0 < address < ADDRESSES - length:
        raise _refused("no range of memory", "bad_range", address, length)
    with open("/proc/self/maps") as maps:
        allowed = rights(maps, address, length)
    if not allowed:
        raise _refused("nothing is mapped there that could be read", "not_mapped", address, length)
    seen = memoryview((ctypes.c_ubyte * length).from_address(address)).cast("B")
    return seen if allowed == "rw" else seen.toreadonly()


def _refused(text: str, cause: str, address: int, length: int) -> UsageError:
    return UsageError(text, cause=cause, range=(address, length))
