"""Who waits for which reply, and who leads. Called under the lock of the connection."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from ..errors import Error, PeerError, Timeout
from .descriptors import close_all
from .inbox import Arrival
from .wire import Kind

__all__ = ["Calls", "Waiter"]


class Waiter:
    """A caller. Written by others under the lock, read by its own thread without.

    call     the id of its request
    leads    it reads the socket, for itself and for all who wait
    thread   the thread that calls
    outcome  its answer, or why there will be none; None while it waits
    """

    __slots__ = ("_bell", "call", "leads", "outcome", "thread")

    def __init__(self, call: int, leads: bool) -> None:
        self.call = call
        self.leads = leads
        self.thread = threading.get_ident()
        self.outcome: Arrival | Error | None = None
        self._bell = threading.Lock()  # taken: nothing happened yet
        self._bell.acquire()

    def lead(self) -> None:
        self.leads = True
        self._ring()

    def finish(self, outcome: Arrival | Error) -> None:
        self.outcome = outcome
        self._ring()

    def wait(self, seconds: float) -> None:
        """Blocks until something happened to it, or `seconds` passed."""
        self._bell.acquire(timeout=seconds)

    def result(self, peer: str) -> tuple[bytes, list[int]]:
        """The reply; raises what stands in its place."""
        if self.outcome is None:
            raise Timeout("no reply in time", cause="call_timeout", peer=peer)
        if isinstance(self.outcome, Error):
            raise self.outcome
        frame, fds = self.outcome
        if frame.kind is Kind.FAILURE:
            close_all(fds)
            raise PeerError(frame.body.decode(errors="replace"), cause="call_failed", peer=peer)
        return frame.body, fds

    def discard(self) -> None:
        """Closes the descriptors of a reply that nobody will take."""
        if self.outcome is not None and not isinstance(self.outcome, Error):
            close_all(self.outcome[1])

    def _ring(self) -> None:
        if self._bell.locked():
            self._bell.release()


class Calls:
    """The callers that have no outcome yet, oldest first.

    led     somebody reads the socket: one of them, or a worker of the poller
    leader  the thread of the caller that does
    """

    def __init__(self) -> None:
        self.led = False
        self.leader: int | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Waiter] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self) -> Waiter:
        """A new caller, which leads when nobody does."""
        waiter = Waiter(next(self._numbers), leads=not self.led)
        self._waiting[waiter.call] = waiter
        if waiter.leads:
            self.leader = waiter.thread
        self.led = True
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """From here on nobody gives it an outcome or the lead any more."""
        self._waiting.pop(waiter.call, None)

    def deliver(self, reply: Arrival) -> None:
        frame, fds = reply
        waiter = self._waiting.pop(frame.call, None)
        if waiter is not None:
            waiter.finish(reply)
        else:
            close_all(fds)  # its caller's time was up

    def pass_lead(self) -> None:
        """From who held it to the oldest caller; to nobody when none waits."""
        heir = next(iter(self._waiting.values()), None)
        self.led = heir is not None
        self.leader = None if heir is None else heir.thread
        if heir is not None:
            heir.lead()

    def fail(self, error: Callable[[], Error]) -> None:
        """Ends all of them, each with an error of its own."""
        for waiter in self._waiting.values():
            waiter.finish(error())
        self._waiting.clear()
