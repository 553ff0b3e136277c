"""What a peer has asked and has not been answered."""

from __future__ import annotations

from collections.abc import Iterable

from .inbox import Arrival
from .wire import Frame

__all__ = ["MAX_BYTES", "MAX_REQUESTS", "Backlog"]

# A peer whose calls time out may well leave some; one that exceeds this does not wait for replies.
MAX_REQUESTS = 1024
MAX_BYTES = 256 << 20


class Backlog:
    """Counts requests, so that no peer fills our memory. Called under the connection's lock."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0

    def add(self, requests: Iterable[Arrival]) -> None:
        for frame, _ in requests:
            self.requests += 1
            self.bytes += len(frame.body)

    def done(self, request: Frame) -> None:
        self.requests -= 1
        self.bytes -= len(request.body)

    def overrun(self, authenticated: bool) -> bool:
        """Before authentication a peer may ask one thing at a time: hellos do not overtake."""
        return self.requests > (MAX_REQUESTS if authenticated else 1) or self.bytes > MAX_BYTES
