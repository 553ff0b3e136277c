"""Asking a node for extents while what it gave before is being written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from ... import log
from ...errors import Error

__all__ = ["Orders"]

logger = log.get("kvferry.store")

Fetch = Callable[[int, int], None]


class Orders:
    """One order at a time, in a thread of its own that begins with the first. Thread-safe. Between
    orders it refers to nobody."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False
        self._room = 0
        self._last: Future[None] | None = None

    def begin(self, fetch: Fetch, room: int, count: int) -> bool:
        """Have so many extents of a room fetched, and put where they belong. Does not block. False:
        an order is under way, or nothing is ordered any more."""
        with self._lock:
            if self._closed or not self._over:
                return False
            self._thread = self._thread or ThreadPoolExecutor(1, "kvferry-order")
            try:
                self._last = self._thread.submit(_try, fetch, room, count)
            except RuntimeError:  # the interpreter ends
                return False
            self._room = room
            return True

    def wait(self, room: int | None = None) -> None:
        """Until the order that is under way is over; at once if it is of another room."""
        with self._lock:
            last = self._last if room in (None, self._room) else None
        if last is not None:
            wait([last])

    def close(self) -> None:
        """Blocks until the order that is under way is over. Idempotent."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()

    @property
    def _over(self) -> bool:
        return self._last is None or self._last.done()


def _try(fetch: Fetch, room: int, count: int) -> None:
    try:
        fetch(room, count)
    except Error as error:  # whoever needs them asks again, and is told
        logger.debug("%d extents of %d bytes were not fetched: %s", count, room, error)
