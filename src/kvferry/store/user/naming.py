"""Tells a directory that wants it what keys are called that were put."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from ... import _core, log
from ...errors import Error, PeerError, UsageError
from ..directory import messages as d
from ..directory.line import Line
from ..directory.listing import pages
from ..directory.names import LONGEST
from ..messages import column_of
from .found import Key

__all__ = ["Naming"]

logger = log.get("kvferry.store")

TELL = 0.1  # seconds from one message to the next
IDLE = 1.0  # seconds after which it is asked whether the directory is the same still
MOST = 1 << 16  # keys that wait, and as many as were told, which are kept in mind


class Naming:
    """Thread-safe. Its thread begins with the first put, and ends when no names are wanted.

    The directory keeps names in its memory alone: one that began again is told the last of them
    anew, and what was put before that, or by who is not there any more, stays without a name.

    wanted  are keys to be noted? Until a directory has said that they are not
    line    the way to the directory, and the secret of digests; None: there is no directory
    """

    def __init__(self, line: Callable[[], tuple[Line, bytes] | None], space: bytes) -> None:
        self.wanted = True
        self._line = line
        self._space = space
        self._lock = threading.Lock()
        self._waiting: deque[Key] = deque(maxlen=MOST)
        self._told: deque[Key] = deque(maxlen=MOST)
        self._again: deque[Key] = deque(maxlen=MOST)  # to be told to another directory, too
        self._telling = threading.Lock()
        self._term = 0
        self._due = 0.0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, keys: Sequence[Key]) -> None:
        """These were put. Cheap."""
        self._waiting.extend([key for key in keys if len(key) <= LONGEST])
        if self._thread is None:
            self._begin()

    def names(self) -> Iterator[list[str | bytes]]:
        """All of the namespace. Raises UsageError (names) where no directory is known, or keeps
        none; PeerError (no_directory, changed)."""
        found = self._line()
        if found is None:
            raise UsageError("names are kept by a directory, and none is known", cause="names")
        if self._waiting:
            self.tell()
        return pages(found[0].ask, self._space)

    def tell(self) -> None:
        """Tell all that waits now, and not what comes meanwhile. Blocks; raises what asking raises:
        it is told later then."""
        with self._telling:
            left = len(self._waiting)
            while self.wanted and (left > 0 or self._again or time.monotonic() >= self._due):
                left -= self._tell_some(left > 0 or not self._again)

    def close(self) -> None:
        """What waits is told, if the directory answers at once. Idempotent."""
        self._over.set()
        with self._lock:  # one that is about to begin has begun then
            thread = self._thread
        if thread is not None:
            thread.join()
            try:
                if self._waiting:
                    self.tell()
            except Error as error:
                logger.info("what was put stays without names: %s", error)
        self.wanted = False

    # ---- steps ----

    def _begin(self) -> None:
        if self._line() is None:
            self._stop()
            return
        with self._lock:
            if self._thread is None and not self._over.is_set():
                self._thread = threading.Thread(target=self._run, name="kvferry-names", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self.wanted and not self._over.wait(TELL):
            try:
                self.tell()
            except Error as error:
                logger.debug("names were not told: %s", error)
            except Exception:  # the next round comes
                logger.exception("a round of telling names failed")

    def _tell_some(self, fresh: bool) -> int:
        """Of what was put just now, or of what another directory knew: how many."""
        queue = self._waiting if fresh else self._again
        taken = [queue.popleft() for _ in range(min(len(queue), d.NAMES))]
        keys = [key for key in taken if len(_octets(key)) <= LONGEST]
        try:
            told = self._ask(keys, fresh)
        except BaseException:
            queue.extendleft(reversed(keys))
            raise
        self._due = time.monotonic() + IDLE
        if told is None or not told.wanted:
            self._stop()
            return 0
        if told.term != self._term:
            self._term = told.term
            self._again.extend(self._told)
            self._told.clear()
        self._told.extend(keys)
        return len(taken)

    def _ask(self, keys: list[Key], fresh: bool) -> d.Named | None:
        """None: there is no directory, or none that knows of names."""
        found = self._line()
        if found is None:
            return None
        line, secret = found
        digests, names = column_of(_core.digest(keys, secret)), d.texts_of(map(_octets, keys))
        try:
            told = line.ask(d.Name(self._space, digests, names, fresh), d.Named)
        except PeerError as error:
            if error.cause != "protocol":
                raise
            return None
        return told if isinstance(told, d.Named) else None

    def _stop(self) -> None:
        self.wanted = False
        for queue in (self._waiting, self._again, self._told):
            queue.clear()


def _octets(key: Key) -> bytes:
    return key.encode() if isinstance(key, str) else key
