"""Takes snapshots while somebody looks."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import NamedTuple

import msgspec

from .. import log
from ..store.directory import Follower
from ..store.seen import Snapshot
from ..store.survey import Survey
from .picture import View
from .view import view_of

__all__ = ["Sample", "Sight", "Watcher"]

logger = log.get("kvferry.watch")

EVERY = 2.0  # seconds from one snapshot to the next
KEPT = 150  # samples of the past
AFTER = 10.0  # seconds for which one goes on when nobody looks any more
LONGEST = 60.0  # seconds that rates are of


class Sample(msgspec.Struct, frozen=True):
    """What a View said of the whole store; as its Totals."""

    at: float
    hit_rate: float | None
    reads: float
    absent: float
    read: float
    came: float
    evicted: float
    used: int


class Sight(NamedTuple):
    """A view, numbered, and samples up to it, oldest first."""

    number: int
    view: View
    past: tuple[Sample, ...]


class Watcher:
    """Looks at a store every few seconds, for all who want to see it. Thread-safe.

    Owns the survey and one thread, which rests while nobody asks.
    """

    def __init__(self, survey: Survey, every: float = EVERY) -> None:
        self.every = every
        self._survey = survey
        self._changed = threading.Condition()
        self._wanted = 0.0  # until when somebody looks
        self._over = False
        self._before: Snapshot | None = None
        self._taking = threading.Lock()  # one at a time
        self._sight: Sight | None = None
        self._past: deque[Sample] = deque(maxlen=KEPT)
        self._thread = threading.Thread(target=self._run, name="kvferry-watch", daemon=True)
        self._thread.start()

    def next(self, after: int, timeout: float) -> Sight | None:
        """A sight later than number `after`; waits so many seconds for it. None: there was none, or
        it is over."""
        with self._changed:
            self._wanted = time.monotonic() + timeout + AFTER
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._over or self._later(after), timeout)
            return self._sight if self._later(after) else None

    def snapshot(self) -> Snapshot:
        """One that is no older than from one to the next. Blocks as Survey.take."""
        with self._taking:
            before = self._before
            if before is None or time.monotonic() - before.moment > self.every:
                before = self._take()
            return before

    def follower(self) -> Follower:
        """Tells one thread what comes to nodes and goes."""
        return self._survey.follower()

    def close(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._survey.close()
        self._thread.join()

    # ---- steps ----

    def _later(self, after: int) -> bool:
        return self._sight is not None and self._sight.number > after

    def _run(self) -> None:
        while self._looked_at():
            try:
                with self._taking:
                    self._take()
            except Exception:  # the next one comes
                if not self._over:
                    logger.exception("the store was not seen")
            with self._changed:
                self._changed.wait_for(lambda: self._over, self.every)

    def _looked_at(self) -> bool:
        """Wait until somebody looks; False: it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or time.monotonic() < self._wanted)
            return not self._over

    def _take(self) -> Snapshot:
        snapshot = self._survey.take()
        before = self._before
        recent = before is not None and snapshot.moment - before.moment < LONGEST
        view = view_of(before if recent else None, snapshot, time.monotonic())
        self._before = snapshot
        with self._changed:
            if view.span:
                self._past.append(_sample(view))
            number = 1 if self._sight is None else self._sight.number + 1
            self._sight = Sight(number, view, tuple(self._past))
            self._changed.notify_all()
        return snapshot


def _sample(view: View) -> Sample:
    totals = view.totals
    known = {name: getattr(totals, name) for name in Sample.__struct_fields__ if name != "at"}
    return Sample(view.at, **known)
