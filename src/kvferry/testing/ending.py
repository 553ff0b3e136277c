"""Writes down what a channel does while it ends, in the order in which it does it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..engine import Channel

__all__ = ["Ending"]


class Ending:
    """Made before the channel ends.

    events  "closed" its gate; "abort" of a transfer; "drained": nobody submits any more; "quiet": a
            transfer is settled; "detach" of a region; "hung up": the control connection is closed
    """

    def __init__(self, channel: Channel) -> None:
        self.events: list[str] = []
        self._lock = threading.Lock()
        channel._gate = _Noted(channel._gate, self)  # type: ignore[assignment]
        self._after(channel, "settle", "quiet")
        self._before(channel._control, "close", "hung up")
        for link in set(channel._ways):
            self._before(link, "abort", "abort")
            self._before(link, "detach", "detach")

    def note(self, event: str) -> None:
        with self._lock:
            self.events.append(event)

    def first(self, event: str) -> int:
        return self.events.index(event)

    def last(self, event: str) -> int:
        return len(self.events) - 1 - self.events[::-1].index(event)

    def _before(self, owner: object, method: str, event: str) -> None:
        call: Callable[..., Any] = getattr(owner, method)

        @wraps(call)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.note(event)
            return call(*args, **kwargs)

        setattr(owner, method, noted)

    def _after(self, owner: object, method: str, event: str) -> None:
        call: Callable[..., Any] = getattr(owner, method)

        @wraps(call)
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            self.note(event)
            return result

        setattr(owner, method, noted)


class _Noted:
    """A gate."""

    def __init__(self, gate: Any, ending: Ending) -> None:
        self._gate = gate
        self._ending = ending

    def close(self) -> Any:
        self._ending.note("closed")
        return self._gate.close()

    def drain(self, deadline: int | None = None) -> bool:
        over: bool = self._gate.drain(deadline)
        if over:
            self._ending.note("drained")
        return over

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)
