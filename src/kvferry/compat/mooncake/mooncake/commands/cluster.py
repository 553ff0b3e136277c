"""What a master answers about: the nodes that its directory, or the one that leads, knows of."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kvferry.config import Options
from kvferry.engine import Engine
from kvferry.errors import Error, PeerError, UsageError
from kvferry.store import Answer, Store
from kvferry.store import messages as m
from kvferry.store.answers import Digests
from kvferry.store.directory import messages as d
from kvferry.store.directory.line import Line
from kvferry.store.seen import NodeSeen, Snapshot
from kvferry.store.survey import Survey
from kvferry.store.user.home import Home
from kvferry.store.user.keys import digests_of
from kvferry.store.user.namespace import Namespace
from kvferry.store.user.node_at import join

__all__ = ["PAGE", "Cluster", "Names", "Place"]

FRESH = 0.5  # seconds for which a look at all nodes is good
PAGE = 1024  # keys that are asked for at once
ANSWER = 3.0  # seconds in which a directory has to answer
PATH = "tcp/host"  # no memory of a node is mapped here
DEFAULT_TENANT = "default"

Names = list[str | bytes]


class Place(NamedTuple):
    """Where an object is: its node's address, where in the pool of it, and how many bytes."""

    address: str
    offset: int
    length: int


class Cluster:
    """Thread-safe. Nobody is asked before something is to be known. To be closed.

    address  of a directory
    """

    def __init__(self, address: str, options: Options) -> None:
        self.address = address
        self._options = replace(options, node_socket=None)  # a node of this host may be another's
        self._engine = Engine(options=self._options)
        self._line = Line(self._engine, (address,), ANSWER)
        self._survey = Survey(address, options=self._options)
        self._looking = threading.Lock()
        self._seen: Snapshot | None = None
        self._joining = threading.Lock()
        self._homes: dict[str, Home] = {}
        self._over = False

    def close(self) -> None:
        """Who is answered at the moment gets an error."""
        with self._looking, self._joining:
            self._over = True
            for home in self._homes.values():
                with suppress(Error):
                    home.leave()
        self._survey.close()
        self._engine.close()

    # ---- nodes ----

    def look(self) -> Snapshot:
        """At all of them, half a second ago at most. Blocks for two seconds at most."""
        with self._looking:
            seen = self._seen
            if self._over:
                raise PeerError("the master ends", cause="closed")
            if seen is None or time.monotonic() - seen.moment > FRESH:
                seen = self._seen = self._survey.take()
            return seen

    def node(self, address: str) -> NodeSeen | None:
        return next((each for each in self.look().nodes if each.address == address), None)

    def home(self, address: str) -> Home:
        """This process as a user of the node there. Blocks. Raises as joining does."""
        with self._joining:
            home = self._homes.get(address)
            if home is None or home.gone:
                if self._over:
                    raise PeerError("the master ends", cause="closed")
                home = self._homes[address] = join(self._engine, address, PATH)
            return home

    # ---- keys ----

    def digests(self, keys: Names, tenant: str = DEFAULT_TENANT) -> Digests | None:
        """None: there is no node, and so there are no keys."""
        for node in self.look().nodes:
            with suppress(Error):
                secret = self.home(node.address).joined.secret
                return digests_of(keys, _namespace(tenant).secret_of(secret))
        return None

    def places(self, keys: Names, tenant: str = DEFAULT_TENANT) -> list[list[Place]]:
        """Where each key is. A node that does not answer has none of them."""
        found: list[list[Place]] = [[] for _ in keys]
        digests = self.digests(keys, tenant)
        if digests is not None:
            for address, rows in self.holders(digests):
                with suppress(Error):
                    for row, place in self._located(address, digests, rows):
                        found[row].append(place)
        return found

    def holders(self, digests: Digests) -> Iterator[tuple[str, Sequence[int]]]:
        """Each node, and which rows the directory says it has."""
        placed = self._line.ask(d.Lookup(m.column_of(digests)), d.Placed)
        if isinstance(placed, d.Placed):
            places = d.places_in(placed, len(digests))
            for number, where in placed.nodes.items():
                yield where.address, np.flatnonzero((places == number).any(1)).tolist()

    def elsewhere(self, digests: Digests, node: NodeSeen) -> Iterator[tuple[str, Sequence[int]]]:
        """Each node at which the directory would put another copy of what this one has, with which
        rows it would put there; not those that another node has, too."""
        sizes = np.zeros(len(digests), np.uint64)
        near = node.epoch if node.standing is None else node.standing.epoch
        ask = d.Choose(near, 1, m.column_of(digests), m.column_of(sizes))
        placed = self._line.ask(ask, d.Placed)
        if isinstance(placed, d.Placed):
            places = d.places_in(placed, len(digests))[:, 0]
            for number, where in placed.nodes.items():
                yield where.address, np.flatnonzero(places == number).tolist()

    def names(self, tenant: str = DEFAULT_TENANT) -> Iterator[Names]:
        """Of all keys that the directory knows by name, page by page; some twice where its table
        changed meanwhile. Raises Error."""
        with self._user(tenant) as store:
            for last in (False, True):
                try:
                    yield from () if store is None else store.names()
                    return
                except PeerError as error:
                    if last or error.cause != "changed":
                        raise

    def remove_all(self, force: bool, tenant: str = DEFAULT_TENANT) -> int:
        """How many were removed. Raises Error; some may have been, then."""
        with self._user(tenant) as store:
            if store is None:
                return 0
            return sum(_removed(store, force, names) for names in self.names(tenant))

    # ---- steps ----

    @contextmanager
    def _user(self, tenant: str) -> Iterator[Store | None]:
        """None: there is no node, and so there are no keys."""
        name = _namespace(tenant).name
        if not self.look().nodes:
            yield None
            return
        with Store(self.address, options=self._options, path=PATH, namespace=name) as store:
            yield store

    def _located(
        self, address: str, digests: Digests, rows: Sequence[int]
    ) -> Iterator[tuple[int, Place]]:
        home = self.home(address)
        for first in range(0, len(rows), PAGE):
            some = rows[first : first + PAGE]
            ask = m.Locate(m.column_of(np.ascontiguousarray(digests[some])), 0)
            spots = m.spots_in(home.ask(ask, m.Located), len(some), home.joined.pool)
            lengths, offsets = spots.lengths.tolist(), spots.offsets.tolist()
            for at in np.flatnonzero(spots.answers == Answer.FOUND).tolist():
                yield some[at], Place(address, offsets[at], lengths[at])


def _removed(store: Store, force: bool, names: Names) -> int:
    """How many."""
    return int((store.remove_batch(names, force=force).codes == Answer.REMOVED).sum())


def _namespace(tenant: str) -> Namespace:
    """Raises UsageError for a text that names none."""
    if not tenant:
        raise UsageError("a tenant has a name", cause="namespace")
    return Namespace(None if tenant == DEFAULT_TENANT else tenant)
