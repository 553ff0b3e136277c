"""Locks that know their place in an order, and complain when a thread takes them out of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple

__all__ = ["Held", "OrderedCondition", "OrderedLock", "Place"]


class Place(NamedTuple):
    """Where a lock stands.

    rank  who holds it takes only locks of a higher rank
    leaf  who holds it takes no other lock
    may   what may be done under it although it blocks or reaches out of the process -> why;
          "*" stands for everything
    """

    rank: int
    leaf: bool = False
    may: Mapping[str, str] = {}


class Held(threading.local):
    """What the asking thread holds, in the order in which it was taken.

    complain  is told a sentence about every breach, in the thread that commits it
    """

    def __init__(self, complain: Callable[[str], None]) -> None:
        self.locks: list[OrderedLock] = []
        self.complain = complain

    def does(self, what: str, but: OrderedLock | None = None) -> None:
        """This thread is about to do something that not every lock is held for."""
        for lock in self.locks:
            if lock is not but and not {what, "*"} & lock.place.may.keys():
                self.complain(f"{what} under {lock}")


class OrderedLock:
    """A lock that checks its place before it waits: an inversion is found the first time that one
    thread does it, without the second thread that would complete the deadlock.

    It is taken nevertheless, unless that could never end. Released by who acquired it.
    """

    def __init__(self, name: str, place: Place, held: Held, reentrant: bool = False) -> None:
        self.name = name
        self.place = place
        self._held = held
        self._reentrant = reentrant
        self._lock = threading.RLock() if reentrant else threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        mine = self._held.locks
        if mine:
            self._check(mine)
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            mine.append(self)
        return taken

    def release(self) -> None:
        mine = self._held.locks
        if self in mine:
            mine.remove(self)
        else:
            self._held.complain(f"{self} was released by a thread that does not hold it")
        self._lock.release()

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
        return f"{self.name} (rank {self.place.rank})"

    def _is_owned(self) -> bool:
        """For threading.Condition, which else tries to take it."""
        return self in self._held.locks

    def _check(self, mine: list[OrderedLock]) -> None:
        if self in mine:
            assert self._reentrant, f"{self} taken twice by one thread"
            return
        for other in mine:
            if other.place.leaf:
                self._held.complain(f"{self} taken under {other}, which is a leaf")
            elif other.place.rank >= self.place.rank:
                self._held.complain(f"{self} taken under {other}")


class OrderedCondition(threading.Condition):
    """A condition whose waiters hold nothing but its own lock."""

    def __init__(self, lock: OrderedLock, held: Held) -> None:
        super().__init__(lock)  # type: ignore[arg-type]
        self._own = lock
        self._held = held

    def wait(self, timeout: float | None = None) -> bool:
        self._held.does("wait", but=self._own)
        return super().wait(timeout)
