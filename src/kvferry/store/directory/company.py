"""Who may believe that nobody else is there, and until when."""

from __future__ import annotations

from .messages import ALONE

__all__ = ["Company"]

STRANGER = 60_000_000_000  # ns for which one is expected to ask again who is no node


class Company:
    """Pure; `now` is ns of one clock.

    Whoever was told that there is one node alone, or none, believes it for ALONE: that node, which
    then lets nobody wait until what it has is known here; and users, who do not ask again. A node
    that comes meanwhile is as good as there when nobody believes that any more.

    settled  span, ns, in which nodes come that know each other
    """

    def __init__(self, now: int, settled: int) -> None:
        self._settled = settled
        self._came = now
        self._stranger = now - STRANGER
        self._believed = now  # until when somebody may

    def came(self, now: int) -> int:
        """A node has: ns until nobody believes that it is not there."""
        self._came = now
        return max(self._believed - now, 0)

    def stranger(self, now: int) -> None:
        """Somebody asked who is no node, or may ask soon."""
        self._stranger = now

    def told(self, members: int, now: int) -> None:
        """A user was told how many nodes there are."""
        if members <= 1:
            self._believed = now + ALONE

    def alone(self, members: int, now: int) -> bool:
        """May the one who is heard of this moment believe that nobody else is there?"""
        new = now - self._came < self._settled
        if members != 1 or new or now - self._stranger < STRANGER:
            return False
        self._believed = now + ALONE
        return True
