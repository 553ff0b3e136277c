"""Notifications that have come and were not read yet."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

__all__ = ["MESSAGE_MAX", "Mailbox", "Notification"]

MESSAGE_MAX = 64 << 10  # bytes


class Notification(NamedTuple):
    """One message of Channel.notify: who sent it, under which name, and its bytes."""

    peer: str
    name: str
    message: bytes


class Mailbox:
    """A bounded queue. Thread-safe; each notification goes to one taker."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: deque[Notification] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, notification: Notification) -> bool:
        """False when it is full."""
        with self._changed:
            if len(self._waiting) >= self._capacity:
                return False
            self._waiting.append(notification)
            self._changed.notify()
            return True

    def take(self, timeout: float | None) -> list[Notification]:
        """All there are, oldest first; waits for one at most `timeout` seconds, or until close."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout)
            found = list(self._waiting)
            self._waiting.clear()
        return found

    def close(self) -> None:
        """Wake everyone who waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
