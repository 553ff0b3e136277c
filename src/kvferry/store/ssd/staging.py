"""Memory in which runs are put together: one is, while the one before is written."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

from ... import _core
from ..table import Words
from .disk import Aligned
from .record import VALUE, Bytes, Rows, ends_of, write_head

__all__ = ["Staging"]

Write: TypeAlias = Callable[[Bytes], None]


class Staging:
    """Two buffers, each as large as the largest run so far, and a thread. One caller at a time."""

    def __init__(self, size: int) -> None:
        self._buffers = [Aligned(size), Aligned(size)]
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="kvferry-ssd")
        self._under_way: Future[None] | None = None

    def stage(self, rows: Rows, addresses: Words, birth: int, at: int, size: int) -> Bytes:
        """A whole run; checksums are put into the rows. May go on while the last one is written."""
        if len(self._buffers[0]) < size:
            self._buffers[0] = Aligned(size)
        buffer = self._buffers[0]
        which = rows["kind"] == VALUE
        ats, lengths = (np.ascontiguousarray(rows[name][which]) for name in ("at", "length"))
        start = ends_of(len(rows))
        rows["crc32c"][which] = _core.stage(
            buffer.address, start, size, ats, lengths, addresses[which]
        )
        run = buffer.bytes[:size]
        write_head(rows, birth, at, run)
        return run

    def write(self, run: Bytes, write: Write) -> None:
        """Let it be written behind, when the one before is. Raises what writing that one raised."""
        self.settle()
        self._under_way = self._writer.submit(write, run)
        self._buffers.reverse()

    def settle(self) -> None:
        """Nothing is being written any more. Raises what writing the last one raised."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def close(self) -> None:
        self._writer.shutdown()
