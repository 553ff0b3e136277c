"""The SSD tier of a node."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from ... import log as logs
from ...errors import DeviceError
from ...memory import Region
from ..answers import Answer, Answers, Cause, Digests
from ..catalog import Catalog
from ..clock import now
from ..table import Entries, IndexLike
from .promotion import Promotion
from .setup import Setup
from .writer import Writer

__all__ = ["Tier"]

logger = logs.get("kvferry.store")

RUN = 8 << 20  # bytes that are written in one go
PART = 8  # of the pool, which a run, or what one asker brings in, is at most
SEEN = 1.0  # seconds that somebody waits for what is being written
TOLD = 5.0  # seconds that a removal waits for a disk that does not refuse

ABSENT, REMOVED = int(Answer.ABSENT), int(Answer.REMOVED)
PRESENT, UNREADABLE = int(Cause.PRESENT), int(Cause.UNREADABLE)


def clocks() -> tuple[int, int]:
    """Nanoseconds since the machine began, and since 1970."""
    return now(), time.time_ns()


class Tier:
    """Objects that came into memory are written behind; what left memory is brought back when
    somebody asks. Thread-safe, and for what says so with the lock of the catalog only.

    lock   of the catalog
    index  where objects stand in memory
    pool   the memory they lie in
    """

    def __init__(
        self,
        lock: AbstractContextManager[object],
        catalog: Catalog,
        setup: Setup,
        index: IndexLike,
        pool: Region,
        clocks: Callable[[], tuple[int, int]] = clocks,
    ) -> None:
        self._lock, self._catalog, self._setup = lock, catalog, setup
        self._behind, self._log = setup.behind, setup.log
        self._index = index
        self.region = setup.region
        catalog.note(setup.lost, Cause.CORRUPT)
        part = pool.length // PART
        self._writer = Writer(
            lock,
            catalog,
            setup.behind,
            setup.log,
            clocks,
            pool=pool.address,
            size=setup.ssd.size,
            segment=setup.ssd.segment,
            run=min(RUN, part, setup.ssd.segment // 2),
        )
        self._promotion = Promotion(
            lock,
            catalog,
            setup.behind,
            setup.log,
            now,
            index=index,
            pool=pool.address,
            share=part,
        )
        self._thread = threading.Thread(
            target=self._writer.run, name="kvferry-write-behind", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    # ---- as a witness of the catalog ----

    def came(self, entries: Entries) -> None:
        if len(self._behind.backlog):  # which does not grow by what was brought in
            self._writer.wake()

    def left(self, entries: Entries, cause: Cause) -> None:
        pass

    # ---- reading ----

    def fetch(self, digests: Digests) -> Answers:
        """Have these in memory: FOUND, ABSENT, BUSY (ask again), or why there is no room. Blocks
        while the disk is read, or written to."""
        return self._promotion.fetch(digests, self._wait_for_writing)

    def _wait_for_writing(self) -> bool:
        before = self._writer.written
        return self._writer.settle(lambda: self._writer.written != before, SEEN)

    # ---- with the lock ----

    def why(self, digests: Digests, told: Answers) -> Answers:
        """What the catalog told, where it does not lie on the disk."""
        here = self._behind.shelf.has(digests) & (told != UNREADABLE)
        return np.where(here, PRESENT, told).astype(np.uint8)

    def remove(self, digests: Digests, answers: Answers) -> Answers:
        """What was not in memory, as the catalog answered, leaves the disk."""
        absent = np.flatnonzero(answers == ABSENT)
        there = self._behind.bury(np.ascontiguousarray(digests[absent]), Cause.REMOVED)
        answers[absent[there]] = REMOVED
        self._catalog.note(digests[absent[there]], Cause.REMOVED)
        return answers

    def expire(self, now: int) -> None:
        """What lies on the disk alone, and whose moment has come, leaves."""
        shelf = self._behind.shelf
        due = shelf.due(now)
        if len(due):
            digests = shelf.read(due).digests
            self._behind.bury(digests, Cause.EXPIRED)
            self._catalog.note(digests[self._index.find(digests) < 0], Cause.EXPIRED)

    def scan(self, start: int, count: int) -> Entries:
        """What lies on the disk, of `count` slots from `start` on; some of it in memory, too."""
        return self._behind.shelf.index.scan(start, count)

    @property
    def slots(self) -> int:
        return self._behind.shelf.index.capacity

    @property
    def asked(self) -> int:
        """How many removals the disk was to be told of so far."""
        return self._behind.void.asked

    # ---- without ----

    def settle(self, asked: int) -> bool:
        """Wait until the disk was told of so many removals, so that nothing of it comes back when
        this process is killed. False: it does not take them; it is tried again and again."""
        void = self._behind.void
        if void.settled >= asked:
            return True
        return self._writer.settle(lambda: void.settled >= asked or self._writer.paused, TOLD)

    def flush(self, seconds: float, hurried: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all that is in memory is on the disk; False: for too long, or not at all."""
        with self._lock:
            self._catalog.moments()  # what was stored is known by now
        end = time.monotonic() + seconds
        while time.monotonic() < end and not hurried() and not self._writer.paused:
            if self._writer.settle(self._all_written, min(seconds, 0.1)):
                return True
        return False

    def _all_written(self) -> bool:
        with self._lock:
            behind = self._behind
            told = behind.void.asked == behind.void.settled
            return told and not len(behind.backlog) and not behind.shelf.writing

    def figures(self) -> dict[str, int]:
        """Bytes and objects on the disk, and what happened since the node began."""
        with self._lock:
            behind, shelf = self._behind, self._behind.shelf
            seen = {
                "objects": shelf.count,
                "live": shelf.live,
                "behind": len(behind.backlog) + shelf.writing,
                "demoted": behind.demoted,
                "lost": behind.lost,
                "too_large": behind.too_large,
            }
        return {
            "size": self._setup.ssd.size,
            "bytes": sum(each.bytes for each in self._log.segments()),
            **seen,
            "written": self._writer.written,
            "written_bytes": self._writer.bytes,
            "evicted": self._writer.evicted,
            "hits": self._promotion.promoted,
            "hit_bytes": self._promotion.bytes,
            "corrupt": self._promotion.corrupt,
            "unreadable": self._promotion.failed,
            "paused": int(self._writer.paused),
            "direct": int(self._log.direct),
        }

    def check_integrity(self) -> list[str]:
        with self._lock:
            return self._behind.shelf.check_integrity()

    def close(self, patience: float) -> None:
        """End, when all is written or so many seconds have passed. Then nobody fetches any more."""
        if self._thread.is_alive():
            self.flush(patience)
            self._writer.stop()
            self._thread.join()
        self._promotion.close()
        with self._lock:
            self._setup.lying.retire()
        try:
            self._log.close()
        except DeviceError as error:
            logger.warning("the SSD tier did not end well: %s", error)
