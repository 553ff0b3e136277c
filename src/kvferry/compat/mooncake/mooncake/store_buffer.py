"""A value that was read, in memory of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from kvferry._core import View
from kvferry.store import Answer

__all__ = ["NOTHING", "BufferHandle", "handles"]

NOTHING = bytearray()
FOUND = int(Answer.FOUND)


class BufferHandle(View):
    """A writable buffer of the bytes of one value, which are there as long as anybody refers to
    it or to a buffer of it."""

    def __new__(cls, memory: NDArray[np.uint8], length: int) -> Self:
        return super().__new__(cls, memory.ctypes.data, length, False, memory)

    def ptr(self) -> int:
        """Where it begins."""
        return self.address

    def size(self) -> int:
        """Its bytes."""
        return self.length


def handles(store: Any, keys: Any) -> list[BufferHandle | None]:
    """A copy of each value, None where there is none. Raises what the store raises.

    A destination of no bytes tells how long each is; one that came meanwhile is missed.
    """
    lengths = store.get_batch_into(keys, [NOTHING] * len(keys)).lengths.tolist()
    made = [np.empty(length, np.uint8) for length in lengths]
    results = store.get_batch_into(keys, made)
    rows = zip(made, results.codes.tolist(), results.lengths.tolist(), strict=True)
    return [
        BufferHandle(memory, length) if code == FOUND else None for memory, code, length in rows
    ]
