"""leases.h: how long objects stay, in memory that users write to and the node believes in part."""

from collections.abc import Iterable
from typing import final

import numpy as np
from numpy.typing import NDArray

from .store import Index, IndexReader

def leases_bytes(slots: int) -> int:
    """Of memory for leases of an index of so many slots."""

@final
class SharedLeases:
    """The node's side. One thread at a time, the one that has objects leave the index.

    The memory begins in zeroes at a multiple of 8, and stays mapped and writable as long as this is
    used. Slots are int64, contiguous, and of the index.
    """

    def __init__(self, index: Index, address: int, length: int) -> None: ...
    def begin(self) -> None:
        """Who may leave is looked at, chosen and marked from now on: users lease nothing."""

    def end(self) -> None:
        """All that was chosen is marked."""

    def held(self, slots: NDArray[np.int64], now: int, longest: int) -> NDArray[np.bool_]:
        """Which of these are leased at `now`, in ns since boot. A lease that would last longer than
        `longest` from this moment on is bounded to that."""

    def clear(self, slots: NDArray[np.int64]) -> None:
        """What is leased there is leaving."""

@final
class Leasing:
    """A user's side. Thread-safe.

    `address` and `length` are of the memory of leases, which stays mapped to write as long as this
    is called; as `reader` and all that it needs. No lease is for longer than `longest`, ns.
    """

    def __init__(self, reader: IndexReader, address: int, length: int, longest: int) -> None: ...
    def take(self, keys: Iterable[str | bytes], span: int) -> tuple[NDArray[np.uint8], int]:
        """Have objects stay for so many ns: a status each, and for how many of them the node has to
        be asked. HIT: it stays; ABSENT; all others are those. Neither counted nor touched. The GIL
        is released when there is much to do."""
