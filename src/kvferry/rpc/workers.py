"""Threads that take turns to wait, so that one always waits while others work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .. import log
from ..errors import NoMemory

__all__ = ["MAX_WORKERS", "MIN_WORKERS", "Job", "Workers"]

MIN_WORKERS = 2  # one works, one waits: what a quiet process keeps
MAX_WORKERS = 64

Job = Callable[[], None]

logger = log.get("kvferry.rpc")


class Workers:
    """As many daemon threads as are busy, and one more that waits for the next job; 64 at most.

    next     blocks until there is a job, or gives None after a while
    at_end   called when the last thread ends after stop(); twice when two end together
    idle     seconds in which two of them waited all the time, after which one beyond two ends
    """

    def __init__(
        self,
        name: str,
        next: Callable[[], Job | None],
        at_end: Callable[[], None],
        *,
        clock: Callable[[], float],
        idle: float,
    ) -> None:
        self._name = name
        self._next = next
        self._at_end = at_end
        self._clock = clock
        self._idle = idle
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._alive = 0  # threads that did not decide to end
        self._waiting = 0
        self._last_needed = clock()  # when all but one of them were busy, at least
        self._born = 0
        self._stopping = False

    def start(self) -> None:
        """Makes the first thread, if there is none."""
        with self._lock:
            if not self._alive and not self._stopping:
                self._spawn()
                if not self._alive:
                    raise NoMemory(f"{self._name} cannot start a thread", cause="threads")

    def stop(self) -> bool:
        """Lets the threads end when `next` returns; False when there are none."""
        with self._lock:
            self._stopping = True
            return self._alive > 0

    def join(self, timeout: float) -> None:
        """Waits `timeout` seconds at most for the threads to end; not at all in one of them."""
        with self._lock:
            threads = set(self._threads)
        if threading.current_thread() in threads:
            return
        deadline = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0))

    def abandon(self) -> None:
        """In a forked child, where the threads do not exist."""
        self._lock = threading.Lock()
        self._stopping = True
        self._alive = 0
        self._threads.clear()

    def _run(self) -> None:
        while self._stays():
            job = self._next()
            self._set_out(works=job is not None)
            if job is None:
                continue
            try:
                job()
            except BaseException:
                logger.exception("a job of %s failed", self._name)
        self._end()

    def _stays(self) -> bool:
        with self._lock:
            spare = self._alive > MIN_WORKERS and self._waiting > 0
            if self._stopping or (spare and self._clock() - self._last_needed >= self._idle):
                self._alive -= 1
                return False
            self._waiting += 1
            return True

    def _set_out(self, *, works: bool) -> None:
        with self._lock:
            self._waiting -= 1
            if works and self._waiting <= 1:
                self._last_needed = self._clock()
            alone = works and self._waiting == 0 and not self._stopping
            if alone and self._alive < MAX_WORKERS:
                self._spawn()

    def _end(self) -> None:
        with self._lock:
            last = self._stopping and self._alive == 0
        if last:
            self._at_end()
        with self._lock:
            self._threads.discard(threading.current_thread())

    def _spawn(self) -> None:
        self._born += 1
        self._alive += 1
        thread = threading.Thread(target=self._run, name=f"{self._name}-{self._born}", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:  # the machine has no more, or the interpreter ends
            self._threads.discard(thread)
            self._alive -= 1
            logger.warning("%s cannot start a thread: %s", self._name, error)
