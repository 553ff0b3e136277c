"""Asks a directory who is there, and every node for its figures."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType

import msgspec

from .. import log
from ..address import UnixAddress, parse
from ..config import Options
from ..engine import Channel, Engine
from ..errors import Error, Timeout, UsageError
from . import messages as m
from .directory import messages as d
from .directory.following import Follower
from .directory.line import Line
from .seen import NodeSeen, Snapshot, Standing, parts_of

__all__ = ["Survey"]

logger = log.get("kvferry.survey")

TIMEOUT = 1.0  # seconds that a node may take, to be connected to and again to answer
NOBODY = d.Roster((), {})
ROUND = 1.5  # seconds after which a round ends, whoever is still silent
WELL, ILL = 16, 4  # nodes that are asked at once: such as answered last time, and others


class Survey:
    """Looks at a store again and again: from a directory's address at all its nodes; from a node's
    at those of the directory that it names or, if it names none, at it alone. While a directory
    does not answer, its nodes are those that it told of last.

    Blocks in `take`, for no more than two seconds or so; one thread at a time. Becomes nobody's
    user. Owns an engine and a few threads; to be closed.
    """

    def __init__(self, address: str, *, options: Options | None = None) -> None:
        parse(address)
        self.address = address
        self._engine = Engine(options=options)
        self._line = Line(self._engine, [address], TIMEOUT)
        self._posts: dict[str, _Post] = {}
        self._told = NOBODY  # by the directory
        self._pools = [ThreadPoolExecutor(count, "kvferry-survey") for count in (ILL, WELL)]

    def take(self) -> Snapshot:
        """What is there now. Never raises for what others do: see Snapshot.why, NodeSeen.why."""
        roster, alone, why = self._roster()
        standings = {each.address: each for each in roster.nodes}
        addresses = [alone] if alone else list(standings)
        nodes = self._ask(addresses, standings)
        page = roster.page or next((post.page for post in self._posts.values() if post.page), "")
        return Snapshot(
            self.address, time.time(), time.monotonic(), nodes, roster.figures, page, why
        )

    def derive(self, purpose: bytes) -> bytes:
        """As Engine.derive."""
        return self._engine.derive(purpose)

    def follower(self) -> Follower:
        """Tells what comes to nodes and goes, if there is a directory: from what is there on."""
        return Follower(Line(self._engine, self._line.addresses, TIMEOUT).ask)

    def close(self) -> None:
        self._engine.close()  # which ends what they wait for
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)

    def __enter__(self) -> Survey:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- who ----

    def _roster(self) -> tuple[d.Roster, str, str]:
        """Of the directory; or the address of a node that has none; or why there is neither."""
        try:
            told = self._line.ask(d.Roll(), d.Roster)
        except Error as error:
            if self._told.nodes:
                return self._told, "", str(error)
            if self._line.addresses != (self.address,):  # the directory that the node named
                return NOBODY, self.address, str(error)
        else:
            if isinstance(told, d.Roster):
                self._told = told
            return self._told, "", ""
        post = self._post(self.address)
        try:
            looked = post.look()
        except Error as error:
            return NOBODY, "", str(error)
        if not looked.directory or self.address in looked.directory:
            return NOBODY, self.address, ""
        try:
            self._line = Line(self._engine, looked.directory, TIMEOUT)
        except UsageError as error:  # it names what is no address
            return NOBODY, self.address, str(error)
        return self._roster()

    # ---- what ----

    def _ask(
        self, addresses: Iterable[str], standings: dict[str, Standing]
    ) -> tuple[NodeSeen, ...]:
        """All at once; whoever is still being asked from before is not asked once more."""
        posts = [self._post(address) for address in addresses]
        for address in set(self._posts) - {self.address} - {post.address for post in posts}:
            self._posts.pop(address).leave()
        for post in sorted(posts, key=lambda post: not post.well):
            if post.asked is None or post.asked.done():
                post.asked = self._pools[post.well].submit(post.seen)
        wait([post.asked for post in posts if post.asked is not None], ROUND)
        return tuple(_with(post, standings.get(post.address)) for post in posts)

    def _post(self, address: str) -> _Post:
        return self._posts.setdefault(address, _Post(self._engine, address))


class _Post:
    """The way to one node.

    asked  what it is being asked, or was last
    well   it answered last time, or was not asked yet
    """

    def __init__(self, engine: Engine, address: str) -> None:
        self.address = address
        self.well = True
        self.page = ""
        self.asked: Future[NodeSeen] | None = None
        self._engine = engine
        self._lock = threading.Lock()  # who asks
        self._channel: Channel | None = None

    def seen(self) -> NodeSeen:
        began = time.monotonic()
        try:
            looked = self.look()
        except Exception as error:  # of an address that is none, too
            self.well = False
            return NodeSeen(self.address, why=str(error) or type(error).__name__)
        self.well, self.page = True, looked.page
        own, tenants = parts_of(looked)
        took = time.monotonic() - began
        return NodeSeen(self.address, None, "", took, looked.epoch, own, tenants, looked.channels)

    def look(self) -> m.Looked:
        with self._lock:
            channel = self._channel
            if channel is None or channel.stale():
                channel = self._channel = self._connected()
            try:
                body = channel.call(m.SERVICE, m.encode(m.Look()), TIMEOUT)
            except Timeout:  # the next one is asked over a new connection
                self._channel = None
                channel.close()
                raise
        return m.decode_reply(body, m.Looked)

    def leave(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def _connected(self) -> Channel:
        """Over a wire where that can be: no memory of the node is mapped here then."""
        mapped = isinstance(parse(self.address), UnixAddress)
        path = "auto" if mapped else "tcp/host"
        return self._engine.connect(self.address, path=path, streams=1, timeout=TIMEOUT)


def _with(post: _Post, standing: Standing | None) -> NodeSeen:
    asked = post.asked
    if asked is not None and asked.done() and not asked.cancelled():
        return msgspec.structs.replace(asked.result(), standing=standing)
    post.well = False
    return NodeSeen(post.address, standing, "it has not answered yet")
