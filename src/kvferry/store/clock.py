"""The clock that leases and expiry are counted on."""

from __future__ import annotations

import time

import numpy as np

from .table import Ints, Words

__all__ = ["in_time", "moments", "now"]

FOREVER = 1 << 62
DRIFT = 1000  # two clocks part by less than one in so many


def now() -> int:
    """Nanoseconds since this machine started, sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def moments(ttls: Ints | None) -> Words | None:
    """When objects expire that live so many nanoseconds from now; 0: never."""
    if ttls is None:
        return None
    start = now()
    return np.where(ttls == 0, 0, np.minimum(ttls, FOREVER - start) + start).astype(np.uint64)


def in_time(asked: int, ended: int, lease: int) -> bool:
    """Was what ended at `ended` covered by a lease of that span, asked for at `asked`? On the
    asker's clock: the lease began later than that, and lasts as long on the holder's."""
    return ended - asked < lease - lease // DRIFT
