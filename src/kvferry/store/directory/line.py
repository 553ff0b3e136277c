"""The way to whichever directory leads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from ... import log
from ...address import parse
from ...engine import Channel, Engine
from ...errors import ClosedError, Error, PathRefused, PeerError, RightsError, Timeout, UsageError
from . import messages as m

__all__ = ["GONE", "Line"]

logger = log.get("kvferry.directory")

CONNECT = 1.0  # seconds that one try may take
PATIENCE = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between rounds of tries, the last again and again
ELECTION = 0.2  # seconds, at most, where one says that it does not lead: another one soon will

# A directory that answers so is not there, or as good as not there.
GONE = (PeerError, Timeout, ClosedError, PathRefused, RightsError)


class Line:
    """Asks the directories at some addresses in turn, until one leads; stays with that one.

    addresses  where there are directories, all or some of them
    timeout    seconds that one of them may take to answer

    Thread-safe. Blocks for as long as tries take; while none leads, it fails at once in between.
    """

    def __init__(
        self,
        engine: Engine,
        addresses: Sequence[str],
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for address in addresses:
            parse(address)
        self.addresses = tuple(addresses)
        self._engine = engine
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._failures = 0
        self._not_before = 0.0
        self._why: Error | None = None

    def ask(self, request: m.Request, kind: type[m.R]) -> m.R | m.Again:
        """The answer of whoever leads, of this kind, or that the asker has to enroll.

        Raises PeerError (no_directory) while none does, and UsageError, Full and others that the
        directory itself raises as PeerError with the same cause.
        """
        channel = self._channel
        if channel is not None and not channel.stale():
            try:
                reply = self._ask(channel, request)
            except GONE as error:
                if isinstance(error, PeerError) and not channel.stale():
                    raise
                self._give_up(channel, error)
            else:
                if not isinstance(reply, m.Led):
                    return _expect(kind, reply)
                self._give_up(channel, None)
        return _expect(kind, self._search(request))

    def where(self) -> str | None:
        """The address of the directory that answered last."""
        channel = self._channel
        return None if channel is None else channel.peer

    # ---- steps ----

    def _ask(self, channel: Channel, request: m.Request) -> m.Reply:
        try:
            return m.decode_reply(channel.call(m.SERVICE, m.encode(request), self._timeout))
        except Timeout:  # after a cut, TCP tries again as late as the cut was long
            channel.lose(PeerError("it did not answer", cause="silent", peer=channel.peer))
            raise

    def _give_up(self, channel: Channel, why: Error | None) -> None:
        with self._lock:
            if self._channel is channel:
                self._channel, self._why = None, why

    def _search(self, request: m.Request) -> m.Reply:
        """Try all addresses once, and those that were named as the leader's."""
        with self._lock:
            if self._clock() < self._not_before:
                raise self._nobody()
            wanted, tried, longest = list(self.addresses), set[str](), PATIENCE[-1]
            while wanted:
                address = wanted.pop(0)
                if address in tried:
                    continue
                tried.add(address)
                try:
                    # One of its own, by the option: no data goes by a channel that is given up.
                    channel = self._engine.connect(address, streams=1, timeout=CONNECT)
                    reply = self._ask(channel, request)
                except (*GONE, UsageError) as error:
                    self._why = error
                    continue
                if isinstance(reply, m.Led):
                    wanted, longest = [*reply.leader, *wanted], ELECTION
                    continue
                self._channel, self._failures, self._why = channel, 0, None
                return reply
            wait = min(PATIENCE[min(self._failures, len(PATIENCE) - 1)], longest)
            self._not_before, self._failures = self._clock() + wait, self._failures + 1
            raise self._nobody()

    def _nobody(self) -> PeerError:
        why = "none leads" if self._why is None else self._why.args[0]
        return PeerError(
            f"no directory at {', '.join(self.addresses)}: {why}", cause="no_directory"
        )


def _expect(kind: type[m.R], reply: m.Reply) -> m.R | m.Again:
    if isinstance(reply, kind | m.Again):
        return reply
    wrong = type(reply).__name__
    raise PeerError(f"a directory answered {wrong}, not {kind.__name__}", cause="protocol")
