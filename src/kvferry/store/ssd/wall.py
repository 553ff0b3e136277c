"""Moments as a disk keeps them: by the clock on the wall, since the other begins with the machine.

Within one run of a node the wall's clock may jump as it likes: it is looked at when a moment is
written, and when a folder is opened.
"""

from __future__ import annotations

import numpy as np

from ..table import Words

__all__ = ["moments_of", "walls_of"]

LAST = np.int64(1 << 62)


def walls_of(moments: Words, now: int, wall: int) -> Words:
    """Nanoseconds since 1970 of moments on the clock of `now`, when it is `wall`; 0: never."""
    return _shifted(moments, wall - now)


def moments_of(walls: Words, now: int, wall: int) -> Words:
    """The other way. What was over is over now."""
    return _shifted(walls, now - wall)


def _shifted(times: Words, by: int) -> Words:
    clipped = np.minimum(times, np.uint64(LAST)).astype(np.int64)
    return np.where(times == 0, 0, np.maximum(clipped + by, 1)).astype(np.uint64)
