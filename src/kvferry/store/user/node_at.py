"""A node by its address: the home there while it lasts, and another try when it is gone."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ... import log
from ...engine import Channel, Engine
from ...errors import ClosedError, Error, PathRefused, PeerError, UsageError
from .. import messages as m
from .far import Far
from .home import Home
from .namespace import PLAIN, Namespace
from .near import Mapped
from .writer import Writer

__all__ = ["NodeAt", "join"]

logger = log.get("kvferry.store")

PATIENCE = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between tries, the last again and again
CONNECT = 3.0  # seconds that one try may take
WIRE = "tcp/host"

Joined = Mapped | Far


def join(engine: Engine, address: str, path: str = "auto", namespace: Namespace = PLAIN) -> Joined:
    """Become a user of the node at `address`: with its memory mapped where `path` permits it, and
    the node would notice this process's end.

    Blocks. Raises what Engine.connect raises, PathRefused with both reasons where it would not and
    there is no other way, and UsageError where no store answers.
    """
    channel = engine.connect(address, path=path, timeout=CONNECT)
    try:
        mapped = channel.regions["store.pool"].mapping is not None
    except KeyError:
        raise UsageError(
            f"there is no store at {address}", cause="no_store", peer=channel.peer
        ) from None
    if mapped:
        try:
            return Mapped(channel, namespace)
        except PeerError as error:
            if error.cause != "no_pid":
                raise
            unseen = str(error.args[0])
        # A closed channel stops no copy to memory that is mapped here: it has to be a wire.
        channel.close()
        return Far(_over_a_wire(engine, address, unseen), namespace, unseen)
    return Far(channel, namespace)


def _over_a_wire(engine: Engine, address: str, unseen: str) -> Channel:
    logger.info("not mapped: %s", unseen)
    try:
        return engine.connect(address, path=WIRE, timeout=CONNECT)
    except PathRefused as refused:
        raise PathRefused(
            f"{unseen}; over a wire: {refused.args[0]}",
            peer=address,
            rejected=refused.rejected,
            cause="no_pid",
        ) from refused


class NodeAt:
    """Thread-safe. The first home is made when it is asked for.

    joining  makes a home; blocks
    address  of the node
    timeout  seconds for which a put waits for the node
    """

    def __init__(
        self,
        address: str,
        joining: Callable[[], Home],
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self._joining = joining
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._both: tuple[Home, Writer] | None = None
        self._past: list[_Past] = []
        self._failures = 0
        self._not_before = 0.0
        self._why: Error | None = None

    @property
    def home(self) -> Home:
        """Where this user is at home there. Raises PeerError while the node is gone; then blocks
        now and then, for another try."""
        return self.both[0]

    @property
    def both(self) -> tuple[Home, Writer]:
        """The home, and what writes to it."""
        return self._current() or self._join()

    @property
    def writing(self) -> tuple[Home, Writer]:
        """The same of a user whose token permits to write. Raises RightsError for others."""
        home, writer = self.both
        if not home.writes:
            raise home.read_only()
        return home, writer

    @property
    def now(self) -> Home | None:
        """The home, if there is one this moment."""
        both = self._both
        return None if both is None or both[0].gone else both[0]

    def _current(self) -> tuple[Home, Writer] | None:
        both = self._both
        return None if both is None or both[0].gone else both

    def _join(self) -> tuple[Home, Writer]:
        with self._lock:
            if current := self._current():
                return current
            if self._clock() < self._not_before:
                raise self._gone()
            try:
                home = self._joining()
            except ClosedError:
                raise
            except Error as error:
                self._note(error)
                raise self._gone() from error
            self._failures, self._why = 0, None
            self._both = home, self._writer(home)
            self._past = [each for each in self._past if not each.leave(home)]
            return self._both

    def _writer(self, home: Home) -> Writer:
        """For the new home. Where the node still takes this user for the one it was, what that had
        reserved is still there."""
        writer = Writer(home, self._timeout)
        if self._both is not None:
            past, old = self._both
            old.close()
            if _user(past) == _user(home):
                writer.take_over(old)
            self._past.append(_Past(weakref.ref(past), *_user(past)))
        return writer

    def _note(self, error: Error) -> None:
        wait = PATIENCE[min(self._failures, len(PATIENCE) - 1)]
        self._failures += 1
        self._not_before = self._clock() + wait
        self._why = error
        logger.info("the store at %s cannot be joined: %s", self.address, error)

    def _gone(self) -> PeerError:
        why = self._why.args[0] if self._why is not None else "not tried again yet"
        return PeerError(
            f"the store at {self.address} is not there: {why}",
            cause="node_gone",
            peer=self.address,
        )

    def leave(self) -> None:
        """Give everything back, as far as the node is there to take it. Nobody joins any more.
        What is written still when this has waited for it stays taken until the process exits."""
        with self._lock:
            both, self._both, self._joining = self._both, None, _closed
        if both is None:
            return
        home, writer = both
        writer.close()
        if home.gone:
            return
        try:
            quiet = writer.end()
            writer.give_back()
            for each in self._past:
                each.leave(home)
            if quiet:
                home.leave()
        except Error as error:
            logger.info("leaving the store at %s: %s", self.address, error)


class _Past(NamedTuple):
    """A home whose channel is over, perhaps unknown to its node, which kept what it had. Of several
    homes of one user each takes leave by itself, since the lines are all of theirs."""

    home: weakref.ref[Home]
    node: int
    user: int

    def leave(self, home: Home) -> bool:
        """Take leave of it, from a later home. False: something is still read there."""
        if self.node != home.joined.epoch:
            return True
        if self.home() is not None:
            return False
        with suppress(Error):
            home.ask(m.Leave(self.user), m.Told)
        return True


def _user(home: Home) -> tuple[int, int]:
    return home.joined.epoch, home.joined.user


def _closed() -> Home:
    raise ClosedError("the store was closed", cause="closed")
