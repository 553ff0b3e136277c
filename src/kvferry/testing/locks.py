"""A lock that knows its place in the order, and fails the test that takes it out of order."""

from __future__ import annotations

import threading
from types import TracebackType

__all__ = ["OrderedLock"]


class OrderedLock:
    """A threading.Lock that raises AssertionError when its thread holds an equal or higher rank.

    Locks are taken by rising rank. The check comes before the wait, so an inversion is found the
    first time one thread does it, without the second thread that would complete the deadlock.
    Must be released by the thread that acquired it.
    """

    # Per thread, shared by all locks: what the thread holds, in the order it was taken.
    _mine = threading.local()

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        held = self._held()
        for other in held:
            assert other.rank < self.rank, f"{self} taken while this thread holds {other}"
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            held.append(self)
        return taken

    def release(self) -> None:
        held = self._held()
        assert self in held, f"{self} released by a thread that does not hold it"
        held.remove(self)
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"lock {self.name!r} of rank {self.rank}"

    def _held(self) -> list[OrderedLock]:
        held: list[OrderedLock] = self._mine.__dict__.setdefault("locks", [])
        return held
