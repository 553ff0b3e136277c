"""Host memory by address, for callers that register it themselves."""

from __future__ import annotations

import threading
import weakref

from kvferry.engine import Engine

from .codes import INVALID_ARGUMENT, OK, coded
from .slabs import Slabs

__all__ = ["MooncakeHostMemAllocator"]


class MooncakeHostMemAllocator:
    """Memory that the kernel has brought in, in memory files. Thread-safe.

    It stays as long as any of it is taken, also when nobody refers to the allocator any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slabs: Slabs | None = None

    @coded(0)
    def alloc(self, size: int) -> int:
        """The address of `size` bytes, the caller's until `free`; 0: there is no memory."""
        with self._lock:
            if self._slabs is None:
                engine = Engine()
                self._slabs = Slabs(engine, "mooncake-host")
                weakref.finalize(self, _let_go, engine, self._slabs).atexit = False
            return self._slabs.allocate(size)

    @coded(INVALID_ARGUMENT)
    def free(self, ptr: int) -> int:
        """0, or -1 for what `alloc` did not return."""
        if self._slabs is None:
            return INVALID_ARGUMENT
        self._slabs.free(ptr)
        return OK


def _let_go(engine: Engine, slabs: Slabs) -> None:
    if not slabs.used:
        engine.close()
