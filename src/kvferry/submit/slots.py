"""Slots: streams lent to one transfer."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from .. import _core
from ..errors import Full, Timeout
from ..runtime import Stream
from .base import Slot

__all__ = ["SlotPool"]

STREAMS_LIMIT = 512

# Seconds between two looks for transfers that ended unnoticed, while somebody waits for a slot.
RECLAIM_AGAIN = 0.01


class SlotPool:
    """A bounded pool of streams, made when first needed or by `warm`, and used again. Thread-safe.

    open_stream  makes one
    reclaim      gives back the slots of transfers that ended unnoticed
    limit        streams in existence, lent or idle
    now          nanoseconds, the clock of deadlines
    """

    def __init__(
        self,
        open_stream: Callable[[], Stream],
        reclaim: Callable[[], None] = lambda: None,
        limit: int = STREAMS_LIMIT,
        now: Callable[[], int] = _core.now,
    ) -> None:
        self._open_stream = open_stream
        self._reclaim = reclaim
        self._limit = limit
        self._now = now
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._idle: list[Stream] = []
        # Those that somebody dropped, in whatever way, are not in it any more.
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._queue: list[object] = []  # who waits, first come first served

    def another(self, open_stream: Callable[[], Stream]) -> SlotPool:
        """A pool of other streams, bounded and reclaimed alike."""
        return SlotPool(open_stream, self._reclaim, self._limit, self._now)

    def close(self) -> None:
        """Let go of the idle streams."""
        with self._lock:
            self._idle.clear()

    def warm(self, streams: int) -> None:
        """See to it that so many streams exist, as far as the limit allows."""
        with self._lock:
            fresh = min(streams, self._limit) - len(self._streams)
            self._idle += self._make(max(0, fresh))

    def take(self, streams: int) -> Slot:
        """A slot of so many streams. Raises Full when the pool has not got them."""
        slot = self._lend(streams, None)
        if slot is None:
            self._reclaim()
            slot = self._lend(streams, None)
        if slot is None:
            raise self._full(streams)
        return slot

    def wait(
        self, streams: int, deadline: int | None, unwanted: Callable[[], bool] = lambda: False
    ) -> Slot | None:
        """As take, but waits for its turn. None once it is `unwanted`, which `stir` makes it ask.

        Raises Timeout at the deadline, and Full for more streams than there can ever be.
        """
        slot = self._lend(streams, None)
        if slot is not None:
            return slot
        if streams > self._limit:
            raise self._full(streams)
        turn = object()
        with self._lock:
            self._queue.append(turn)
        try:
            while not unwanted():
                self._reclaim()
                slot = self._lend_or_sleep(streams, turn, deadline)
                if slot is not None:
                    return slot
            return None
        finally:
            with self._lock:
                self._queue.remove(turn)
                self._tell()

    def stir(self) -> None:
        """Who waits for a slot shall look whether it is still wanted."""
        if self._queue:
            with self._lock:
                self._tell()

    def give(self, slot: Slot) -> None:
        """Back to be used again: every flag enqueued on the streams is set."""
        with self._lock:
            self._idle.extend(slot)
            self._tell()

    def discard(self, slot: Slot) -> None:
        """Never to be used again: something on these streams failed."""
        with self._lock:
            self._streams.difference_update(slot)
            self._tell()

    def _tell(self) -> None:
        """With the lock held: who waits looks again."""
        if self._queue:
            self._changed.notify_all()

    def _lend_or_sleep(self, streams: int, turn: object, deadline: int | None) -> Slot | None:
        with self._lock:
            slot = self._find(streams, turn)
            if slot is None:
                left = RECLAIM_AGAIN if deadline is None else (deadline - self._now()) / 1e9
                if left <= 0:
                    raise Timeout(
                        f"no slot of {streams} streams came free in time", cause="no_slot"
                    )
                self._changed.wait(min(left, RECLAIM_AGAIN))
            return slot

    def _lend(self, streams: int, turn: object) -> Slot | None:
        with self._lock:
            return self._find(streams, turn)

    def _find(self, streams: int, turn: object) -> Slot | None:
        """With the lock held: a slot, unless they are out, or somebody waits whose turn it is."""
        if self._queue and self._queue[0] is not turn:
            return None
        fresh = max(0, streams - len(self._idle))
        if len(self._streams) + fresh > self._limit:
            return None
        made = self._make(fresh)
        kept = len(self._idle) - (streams - fresh)
        slot = self._idle[kept:]
        del self._idle[kept:]
        return slot + made

    def _make(self, streams: int) -> Slot:
        made = [self._open_stream() for _ in range(streams)]
        self._streams.update(made)
        return made

    def _full(self, streams: int) -> Full:
        return Full(
            f"no slot of {streams} streams: {len(self._streams) - len(self._idle)} of "
            f"{self._limit} are in use",
            cause="no_slot",
        )
