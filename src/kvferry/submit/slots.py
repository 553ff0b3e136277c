"""Slots: streams lent to one transfer."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import NamedTuple

from .. import _core
from ..errors import Full, Timeout
from ..runtime import Stream
from .base import Slot

__all__ = ["SlotPool"]

STREAMS_LIMIT = 512

# Seconds between two looks for transfers that ended unnoticed, while somebody waits for a slot.
RECLAIM_AGAIN = 0.01


class _Place:
    """Stands for a stream while it is made."""

    __slots__ = ("__weakref__",)


class _Find(NamedTuple):
    """Idle streams, and places for those that are to be made."""

    slot: Slot
    missing: list[_Place]


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
        self._open_stream: Callable[[int | None], Stream] = lambda _deadline: open_stream()
        self._reclaim = reclaim
        self._limit = limit
        self._now = now
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._idle: list[Stream] = []
        # Those that somebody dropped, in whatever way, are not in it any more.
        self._streams: weakref.WeakSet[Stream | _Place] = weakref.WeakSet()
        self._queue: list[object] = []  # who waits, first come first served

    def another(self, open_stream: Callable[[int | None], Stream]) -> SlotPool:
        """A pool of other streams, bounded and reclaimed alike, which take a while to make.

        Each is made by the deadline of who needs it, and meanwhile others take and give.
        """
        pool = SlotPool(lambda: open_stream(None), self._reclaim, self._limit, self._now)
        pool._open_stream = open_stream
        return pool

    def close(self) -> None:
        """Let go of the idle streams."""
        with self._lock:
            idle, self._idle = self._idle, []
        idle.clear()  # the end of a stream may take locks

    def warm(self, streams: int) -> None:
        """See to it that so many streams exist, as far as the limit allows."""
        with self._lock:
            missing = self._reserve(max(0, min(streams, self._limit) - len(self._streams)))
        self.give(self._fill(_Find([], missing), None))

    def take(self, streams: int, deadline: int | None = None) -> Slot:
        """A slot of so many streams, made by the deadline. Raises Full: there are not as many."""
        found = self._look(streams)
        if found is None:
            self._reclaim()
            found = self._look(streams)
        if found is None:
            raise self._full(streams)
        return self._fill(found, deadline)

    def wait(
        self, streams: int, deadline: int | None, unwanted: Callable[[], bool] = lambda: False
    ) -> Slot | None:
        """As take, but waits for its turn. None once it is `unwanted`, which `stir` makes it ask.

        Raises Timeout at the deadline, and Full for more streams than there can ever be.
        """
        found = self._look(streams)
        if found is not None:
            return self._fill(found, deadline)
        if streams > self._limit:
            raise self._full(streams)
        turn = object()
        with self._lock:
            self._queue.append(turn)
        try:
            while found is None and not unwanted():
                self._reclaim()
                found = self._look_or_sleep(streams, turn, deadline)
        finally:
            with self._lock:
                self._queue.remove(turn)
                self._tell()
        return None if found is None else self._fill(found, deadline)

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

    def _look_or_sleep(self, streams: int, turn: object, deadline: int | None) -> _Find | None:
        with self._lock:
            found = self._find(streams, turn)
            if found is None:
                left = RECLAIM_AGAIN if deadline is None else (deadline - self._now()) / 1e9
                if left <= 0:
                    raise Timeout(
                        f"no slot of {streams} streams came free in time", cause="no_slot"
                    )
                self._changed.wait(min(left, RECLAIM_AGAIN))
            return found

    def _look(self, streams: int) -> _Find | None:
        with self._lock:
            return self._find(streams, None)

    def _find(self, streams: int, turn: object) -> _Find | None:
        """With the lock held: a slot, unless they are out, or somebody waits whose turn it is."""
        if self._queue and self._queue[0] is not turn:
            return None
        fresh = max(0, streams - len(self._idle))
        if fresh and len(self._streams) + fresh > self._limit:
            return None
        missing = self._reserve(fresh) if fresh else []
        kept = len(self._idle) - (streams - fresh)
        slot = self._idle[kept:]
        del self._idle[kept:]
        return _Find(slot, missing)

    def _reserve(self, streams: int) -> list[_Place]:
        """With the lock held."""
        places = [_Place() for _ in range(streams)]
        self._streams.update(places)
        return places

    def _fill(self, found: _Find, deadline: int | None) -> Slot:
        """Make what is missing, without the lock: that may take as long as a peer takes."""
        if not found.missing:
            return found.slot
        try:
            for place in found.missing:
                stream = self._open_stream(deadline)
                with self._lock:
                    self._streams.discard(place)
                    self._streams.add(stream)
                found.slot.append(stream)
        except BaseException:
            with self._lock:
                self._streams.difference_update(found.missing)
            self.give(found.slot)
            raise
        return found.slot

    def _full(self, streams: int) -> Full:
        return Full(
            f"no slot of {streams} streams: {len(self._streams) - len(self._idle)} of "
            f"{self._limit} are in use",
            cause="no_slot",
        )
