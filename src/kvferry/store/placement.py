"""Room in a full pool: who would have to leave, and why there is none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .table import Ints

__all__ = ["window"]


def window(starts: Ints, ends: Ints, costs: Ints, room: int) -> NDArray[np.int64]:
    """Indices of ranges, neighbours that span `room` bytes, of the least cost; empty: none do.

    Ranges are in order and do not overlap: holes, which cost nothing, and objects that may leave.
    What lies between them may not be used.
    """
    if not len(starts):
        return np.empty(0, np.int64)
    broken = np.append(True, starts[1:] != ends[:-1])
    run = np.cumsum(broken)
    # For each first range the last one it needs.
    last = np.searchsorted(ends, starts + room)
    fits = last < len(starts)
    first, last = np.flatnonzero(fits), last[fits]
    whole = run[first] == run[last]
    first, last = first[whole], last[whole]
    if not len(first):
        return np.empty(0, np.int64)
    spent = np.append(0, np.cumsum(costs))
    best = int(np.argmin(spent[last + 1] - spent[first]))
    return np.arange(first[best], last[best] + 1)
