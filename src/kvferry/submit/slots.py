"""Slots: streams lent to one transfer."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from ..errors import Full
from ..runtime import Stream
from .base import Slot

__all__ = ["SlotPool"]

STREAMS_LIMIT = 512


class SlotPool:
    """A bounded pool of streams, made when first needed and used again. Thread-safe.

    open_stream  makes one
    reclaim      gives back the slots of transfers that ended unnoticed
    limit        streams in existence, lent or idle
    """

    def __init__(
        self,
        open_stream: Callable[[], Stream],
        reclaim: Callable[[], None] = lambda: None,
        limit: int = STREAMS_LIMIT,
    ) -> None:
        self._open_stream = open_stream
        self._reclaim = reclaim
        self._limit = limit
        self._lock = threading.Lock()
        self._idle: list[Stream] = []
        # Those that somebody dropped, in whatever way, are not in it any more.
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()

    def take(self, streams: int) -> Slot:
        """A slot of so many streams. Raises Full when the pool has not got them."""
        if len(self._streams) - len(self._idle) + streams > self._limit:
            self._reclaim()
        with self._lock:
            fresh = max(0, streams - len(self._idle))
            if len(self._streams) + fresh > self._limit:
                raise Full(
                    f"no slot of {streams} streams: {len(self._streams) - len(self._idle)} of "
                    f"{self._limit} are in use",
                    cause="no_slot",
                )
            made = [self._open_stream() for _ in range(fresh)]
            self._streams.update(made)
            kept = len(self._idle) - (streams - fresh)
            slot = self._idle[kept:]
            del self._idle[kept:]
        return slot + made

    def give(self, slot: Slot) -> None:
        """Back to be used again: every flag enqueued on the streams is set."""
        with self._lock:
            self._idle.extend(slot)

    def discard(self, slot: Slot) -> None:
        """Never to be used again: something on these streams failed."""
        with self._lock:
            self._streams.difference_update(slot)
