"""Which segments there are, and which of them have a key: what the master says."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kvferry.engine import Engine
from kvferry.errors import PeerError, Timeout
from kvferry.store import Answer
from kvferry.store import messages as m
from kvferry.store.directory import messages as d
from kvferry.store.directory.line import Line
from kvferry.store.user.node_at import join

from .settings import Settings, ask

__all__ = ["Places"]

ANSWER = 3.0  # seconds in which the master has to answer
TOLD = 1.0  # seconds in which a node surely has told what came
POLL = 0.02


class Places:
    """Asks by an engine of its own. Thread-safe. Raises PeerError where no master answers."""

    def __init__(self, master: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = Engine()
        self._line = Line(self._engine, (master,), ANSWER)
        self._clock = clock

    def check(self) -> None:
        """Does it answer?"""
        self._line.ask(d.Look(), d.Looked)

    def settings(self) -> Settings:
        """What the master has its clients do."""
        channel = self._engine.connect(self._line.addresses[0], timeout=ANSWER)
        try:
            return ask(channel, ANSWER)
        finally:
            channel.close()

    def check_soon(self, seconds: float) -> None:
        """The same, of a master that may have to be started still."""
        deadline = self._clock() + seconds
        while True:
            try:
                return self.check()
            except (PeerError, Timeout):
                if self._clock() > deadline:
                    raise
            time.sleep(POLL)

    def segments(self) -> set[str]:
        """Names of all there are."""
        return {node.address for node in self._asked(d.Roll(), d.Roster).nodes}

    def of(self, store: Any, keys: Sequence[str | bytes]) -> list[list[str]]:
        """Names of the segments that have each of these, which are there. What has just come may
        not have been told yet: blocks for a second at most until it is."""
        column, deadline = b"".join(store.digests(keys)), self._clock() + TOLD
        while True:
            found = self._looked_up(column, len(keys))
            if all(found) or self._clock() > deadline:
                return found
            time.sleep(POLL)

    def remove_at(self, segment: str, store: Any, keys: Sequence[str | bytes]) -> list[bool]:
        """Remove these there and nowhere else: which of them it had, without a lease. Raises what
        Engine.connect raises, UsageError where there is no such segment."""
        home = join(self._engine, f"kv://{segment}")
        try:
            told = home.ask(m.Remove(b"".join(store.digests(keys))), m.Told)
            home.settle(TOLD, alone=False)
        finally:
            home.leave()
        return [answer == Answer.REMOVED for answer in told.answers]

    def close(self) -> None:
        self._engine.close()

    def _looked_up(self, column: bytes, keys: int) -> list[list[str]]:
        placed = self._asked(d.Lookup(column), d.Placed)
        rows = d.places_in(placed, keys).tolist()
        return [[placed.nodes[number].address for number in row if number] for row in rows]

    def _asked(self, request: Any, kind: type[Any]) -> Any:
        reply = self._line.ask(request, kind)
        if not isinstance(reply, kind):
            raise PeerError("the master does not know who asks", cause="protocol")
        return reply
