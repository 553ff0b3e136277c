"""The typed contract of the native core: reading from afar."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from .store import Index

# locate

BRIEF: int  # bytes of the largest object that comes along
CARGO: int  # bytes of all that come along together

Sites: TypeAlias = tuple[
    bytes, bytes, bytes, bytes, NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64], int
]

def locate(
    index: Index, digests: NDArray[np.uint64], moments: NDArray[np.uint64], now: int, pool: int
) -> Sites:
    """Where the object of each key lies that does not expire until `now`: columns of answers (FOUND
    or ABSENT), offsets and lengths, and the cargo. Then slots of what was found; slots and
    generations of what of it is not in the cargo; and bytes of all that was found.

    `moments` is of every slot, 0: never. With the lock held without which nothing leaves. The pool
    is at address `pool`. The GIL is released when there is much to do.
    """

def sound(
    answers: NDArray[np.uint8],
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    cargo: int,
    pool: int,
) -> bool:
    """Can these columns be true of a pool of so many bytes, with a cargo of so many? ValueError
    when they are not equally long."""

def unload_into(
    answers: NDArray[np.uint8],
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    cargo: bytes,
    outs: Sequence[Buffer | None],
) -> NDArray[np.int64]:
    """Copy object i from the cargo to the beginning of outs[i]: which are found and not in it.

    Where it is not wanted, or the buffer is too small, the answer becomes TOO_SMALL and nothing is
    written. Before anything is copied: ValueError for columns that are not sound, TypeError and
    BufferError for what is no contiguous writable buffer. The GIL is released when there is much
    to copy.
    """
