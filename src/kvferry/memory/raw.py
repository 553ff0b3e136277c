"""Memory of this process by address alone."""

from __future__ import annotations

import ctypes

from ..errors import UsageError
from .backing import rights

__all__ = ["memory_at"]

ADDRESSES = 1 << 64


def memory_at(address: int, length: int) -> memoryview:
    """The `length` bytes at an address, which the caller keeps mapped as long as the view is used.

    Read-only where the memory is. Raises UsageError when not all of it is mapped to be read.
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
