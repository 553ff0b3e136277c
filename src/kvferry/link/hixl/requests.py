"""Transfers that HIXL has under way, and the one thread that asks what became of each.

HIXL tells the end of a request once, to who asks, and forgets it: so one thread asks, whichever
connection a request goes over.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from ... import log
from ..._core import LOST, OK, Done
from ...errors import PeerError
from .module import Code, Hixl, Module, broken

if TYPE_CHECKING:
    from .connection import HixlConnection

__all__ = ["REQUESTS_MOST", "HixlRequests", "Request"]

logger = log.get("kvferry.link")

# A request takes a slot of at most 8 of HIXL's 512 streams, and one too many fails as if the device
# had.
REQUESTS_MOST = 64

# Seconds between two rounds of questions: doubled while nothing ends.
SHORTEST, LONGEST = 20e-6, 1e-3


class Request(NamedTuple):
    """A transfer as HIXL knows it, by its number."""

    connection: HixlConnection
    number: int


class HixlRequests:
    """Thread-safe.

    changed  held for lines that touch the books, of transfers and of connections; told of whatever
             somebody may wait for
    closing  the driver ends: nothing is tried again
    """

    def __init__(self, module: Module, hixl: Hixl) -> None:
        self._hixl = hixl
        self._waiting = module.TransferStatus.WAITING
        self._completed = module.TransferStatus.COMPLETED
        self.changed = threading.Condition()
        self.closing = False
        self._stopped = False
        self._under_way: dict[Done, Request] = {}
        self._thread = threading.Thread(target=self._run, name="kvferry-hixl", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def give_up(self) -> None:
        """The driver ends."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()

    def stop(self) -> None:
        """Ask no more. Returns when nobody asks."""
        with self.changed:
            self._stopped = True
            self.changed.notify_all()
        self._thread.join()

    def __len__(self) -> int:
        return len(self._under_way)

    def __contains__(self, done: Done) -> bool:
        return done in self._under_way

    def add(self, done: Done, request: Request) -> None:
        with self.changed:
            self._under_way[done] = request
            request.connection.under_way += 1
            self.changed.notify_all()

    def end(self, done: Done, outcome: int) -> None:
        """It is quiet; who comes first says what it came to."""
        with self.changed:
            request = self._under_way.pop(done, None)
            if request is None:
                return
            request.connection.under_way -= 1
            self.changed.notify_all()
        if outcome != OK:
            done.fail(outcome)
        done.finish(0)

    def lose(self, connection: HixlConnection | None = None) -> None:
        """What went over `connection`, or over any, will not move any more; what it came to nobody
        says."""
        for done, request in list(self._under_way.items()):
            if connection in (request.connection, None):
                self.end(done, LOST)

    def _run(self) -> None:
        pause: float | None = None
        while True:
            with self.changed:
                if not self._stopped:
                    self.changed.wait(pause)
                if self._stopped:
                    return
                under_way = list(self._under_way.items())
            ended = [self._ask(done, request) for done, request in under_way]
            pause = self._pause(pause, any(ended))

    def _pause(self, last: float | None, ended: bool) -> float | None:
        """Seconds before the next round; None: until there is something to ask."""
        with self.changed:
            if not self._under_way:
                return None
        return SHORTEST if ended or last is None else min(2 * last, LONGEST)

    def _ask(self, done: Done, request: Request) -> bool:
        """Has it ended? One whose connection is over has, as soon as that is disconnected."""
        connection = request.connection
        if connection.over is not None:
            return False
        try:
            code, status = self._hixl.get_transfer_status(request.number)
        except Exception as error:
            logger.exception("HIXL does not say what became of a transfer")
            connection.cut(PeerError(f"HIXL: {error}", cause="hixl", peer=connection.peer))
            return True
        if not code and status == self._waiting:
            return False
        if not code and status == self._completed:
            self.end(done, OK)
            return True
        # The request is over, and what it did is unknown.
        connection.cut(broken("a transfer over HIXL", code or Code.FAILED, connection.peer))
        return True
