"""How much of a node's news the directory has acknowledged, for who has to be sure of it."""

from __future__ import annotations

import threading

__all__ = ["Acknowledged"]


class Acknowledged:
    """News is counted from the node's beginning on, over all directories: who knows the first n
    knows all that came and went up to then. Thread-safe.

    waiting  threads that wait this moment
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._count: int | None = None  # None: no directory knows the node
        self._over = False
        self.waiting = 0

    def reach(self, count: int) -> None:
        """The directory knows so many."""
        if self._count != count:
            with self._turn:
                self._count = count
                self._turn.notify_all()

    def void(self) -> None:
        """Nothing of it counts any more: all will be told anew."""
        with self._turn:
            self._count = None

    def covers(self, count: int) -> bool:
        known = self._count
        return known is not None and known >= count

    def wait(self, count: int, seconds: float) -> bool:
        """Until so many are known: True; or for so long, or until it is over: False."""
        with self._turn:
            self.waiting += 1
            try:
                self._turn.wait_for(lambda: self._over or self.covers(count), seconds)
            finally:
                self.waiting -= 1
            return self.covers(count)

    def close(self) -> None:
        """Nobody waits any more."""
        with self._turn:
            self._over = True
            self._turn.notify_all()
