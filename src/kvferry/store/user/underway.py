"""What is being read or written this moment, for who leaves has to wait for that."""

from __future__ import annotations

import threading
from types import TracebackType

from ...errors import ClosedError

__all__ = ["PATIENCE", "Underway"]

PATIENCE = 1.0  # seconds that who leaves waits


class Underway:
    """A context around each copy; raises ClosedError after `end`. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._count = 0
        self._over = False

    def __enter__(self) -> None:
        with self._lock:
            if self._over:
                raise ClosedError("the store was closed", cause="closed")
            self._count += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._count -= 1
            if self._over:
                self._idle.notify_all()

    def end(self) -> bool:
        """Nothing begins any more; False: something is under way still. Blocks for PATIENCE."""
        with self._lock:
            self._over = True
            return self._idle.wait_for(lambda: not self._count, PATIENCE)
