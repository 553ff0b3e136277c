"""Where to look for what the own node has not, and how to put to other nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ... import _core, log
from ...address import parse
from ...engine import Engine
from ...errors import ClosedError, Error
from .. import messages as m
from ..answers import Answer, Answers, Digests
from ..directory import messages as d
from ..directory.line import GONE, Line
from .found import Key
from .node_at import NodeAt
from .sent import Sent
from .settling import Touched
from .values import Values

__all__ = ["ELSEWHERE", "Elsewhere"]

logger = log.get("kvferry.store")

Rows = NDArray[np.intp]

TIMEOUT = 1.0  # seconds that a directory may take
REST = 4  # times as long as a node let us wait for nothing, it is not asked again
LONGEST_REST = 10.0  # seconds
ALONE = d.ALONE / 1e9  # seconds for which a directory is not asked that knows of no other node
# What others may still have.
ELSEWHERE = (Answer.ABSENT, Answer.NODE_GONE, Answer.CORRUPT, Answer.DRAINING)
MAY_BE = np.isin(np.arange(256), ELSEWHERE)
NOBODY: Rows = np.zeros(0, np.intp)
NODE_GONE = int(Answer.NODE_GONE)


class Elsewhere:
    """Other nodes: those that a directory tells for a key or, where none answers, those that the
    own node and the user know of. Thread-safe.

    own    the node that is asked first, and tells whom to ask then
    named  addresses that the user knows of
    reach  makes a place at the node at an address, at one life of it if an epoch names one
    """

    def __init__(
        self,
        engine: Engine,
        own: NodeAt,
        named: Sequence[str],
        reach: Callable[[str, int | None], NodeAt],
    ) -> None:
        self._engine = engine
        self._own = own
        self._named = tuple(named)
        self._reach = reach
        self._lock = threading.Lock()
        self._joined: m.Joined | None = None
        self._places: dict[str, NodeAt] = {}
        self._lives: dict[str, tuple[int, NodeAt]] = {}  # that were told, by address: which life
        self._resting: dict[str, float] = {}  # nodes that did not answer: until when they rest
        self._line: Line | None = None
        self._aside: Line | None = None
        self._alone = 0.0  # until when nobody else is known to be there
        self.sent = Sent()
        self.touched = Touched()

    def __bool__(self) -> bool:
        """Is there anybody to be asked?"""
        told = self._told()
        if told is None or not (told.peers or told.directory):
            return bool(self._named or self.sent)
        return bool(self._named or told.peers or time.monotonic() >= self._alone or self.sent)

    def nodes(self) -> list[NodeAt]:
        """Those that are asked without a directory."""
        told = self._told()
        known = () if told is None else told.peers
        return [self._at(address) for address in dict.fromkeys((*self._named, *known))]

    def knowing(self, keys: Sequence[Key]) -> list[NodeAt]:
        """Those that may have one of these or tell why it is not there."""
        rows = np.arange(len(keys))
        directed = self._directed(self._digests(keys, rows), rows) if self else None
        known = self.nodes() if directed is None else [node for node, _ in directed]
        return [*known, *(node for node, _ in self._sent_to(keys, rows))]

    def told(self, keys: Sequence[Key]) -> Iterator[tuple[NodeAt, Rows]]:
        """Where the directory says that these are, beside the own node; nowhere if none answers."""
        rows = np.arange(len(keys))
        directed = self._directed(self._digests(keys, rows), rows) if self else None
        return chain(directed or (), self._sent_to(keys, rows))

    def ways(self, keys: Sequence[Key], answers: Answers) -> Iterator[tuple[NodeAt, Rows]]:
        """Node after node, each with the rows of the keys that it may have, as long as `answers`,
        which is looked at again each time, has some that were not found."""
        left = _left(answers) if self else NOBODY
        if not len(left):
            return
        everywhere = ((node, np.arange(len(answers))) for node in self.nodes())
        directed = self._directed(self._digests(keys, left), left)
        for node, rows in chain(directed or everywhere, self._sent_to(keys, left)):
            left = np.intersect1d(rows, _left(answers))
            if len(left) and not self._rests(node):
                yield node, left

    def rest(self, node: NodeAt, waited: float) -> None:
        """It was waited for, so many seconds, and did not answer. The second time the way there is
        given up: after a cut, TCP tries again as late as the cut was long."""
        home = node.now
        if self.doubts(node) and home is not None:
            home.lose()
        self._resting[node.address] = time.monotonic() + min(REST * waited, LONGEST_REST)

    def doubts(self, node: NodeAt) -> bool:
        """Did it not answer last time?"""
        return node.address in self._resting

    def trust(self, node: NodeAt) -> None:
        """It has answered."""
        self._resting.pop(node.address, None)

    def chosen(self, values: Values, copies: int) -> d.Placed | None:
        """Which nodes should have these beside the own one, as the directory says; CHOICES of them
        at most. None: none answers."""
        line, told = self._asking(), self._told()
        if line is None or told is None:
            return None
        columns = m.column_of(values.digests), m.column_of(values.lengths)
        try:
            placed = line.ask(d.Choose(told.epoch, copies, *columns), d.Placed)
        except GONE as error:
            logger.info("no directory answered: %s", error)
            return None
        return placed if isinstance(placed, d.Placed) else None

    def holding(self, digests: Digests) -> Iterator[tuple[NodeAt, Rows]]:
        """Where these were put a moment ago, or the directory says that they are, beside the own
        node."""
        directed = self._directed(digests, np.arange(len(digests)))
        return chain(self.sent.ways(digests), directed or ())

    def named(self, address: str) -> NodeAt:
        """The node at an address that the caller knows."""
        return self._at(address)

    def is_own(self, address: str) -> bool:
        """Is it one at which the own node is reached, as far as this is known?"""
        home = self._own.now
        here = (*self._engine.addresses, "" if home is None else home.name)
        return str(parse(address)) in here

    @property
    def own_epoch(self) -> int:
        """The life of the own node, as it was joined last."""
        told = self._told()
        return 0 if told is None else told.epoch

    def meet(self, node: NodeAt) -> int | None:
        """Which life of a node answers at its place; None: none does."""
        if self._rests(node):
            return None
        began = time.monotonic()
        try:
            return node.home.joined.epoch
        except ClosedError:
            raise
        except Error as error:
            logger.info("%s takes nothing: %s", node.address, error)
            self.rest(node, time.monotonic() - began)
            return None

    def living(self, where: d.Where) -> NodeAt:
        """A node that a directory has named: this life of it, and no other."""
        return self._told_at(where)

    def put(self, node: NodeAt, values: Values) -> Answers:
        """Put these to another node: an Answer each, NODE_GONE where it does not answer. Blocks."""
        gone = np.full(len(values.lengths), NODE_GONE, np.uint8)
        if self._rests(node):
            return gone
        began = time.monotonic()
        try:
            return node.both[1].put(values)
        except Error as error:
            logger.info("%s took nothing: %s", node.address, error)
            self.rest(node, time.monotonic() - began)
            return gone
        finally:
            self.touched.note(node)

    def line(self) -> tuple[Line, bytes] | None:
        """Another way to the directory, for who asks again and again while it is not there, which
        must not keep readers from asking; and by what secret keys are hashed. None: there is no
        directory."""
        told = self._told()
        if told is None or not told.directory:
            return None
        if self._aside is None or self._aside.addresses != told.directory:
            self._aside = Line(self._engine, told.directory, TIMEOUT)
        return self._aside, told.secret

    def leave(self) -> None:
        with self._lock:
            places = [*self._places.values(), *(place for _, place in self._lives.values())]
            self._places, self._lives = {}, {}
        for place in places:
            place.leave()

    # ---- steps ----

    def _told(self) -> m.Joined | None:
        """By the own node, also when it is gone."""
        home = self._own.now
        if home is not None:
            self._joined = home.joined
        return self._joined

    def _at(self, address: str) -> NodeAt:
        place = self._places.get(address)
        if place is None:
            with self._lock:
                place = self._places.setdefault(address, self._reach(address, None))
        return place

    def _told_at(self, where: d.Where) -> NodeAt:
        """Only at this life of the node. Of a later one nothing is known from the earlier, such as
        not to try it."""
        with self._lock:
            epoch, place = self._lives.get(where.address, (None, None))
            if place is not None and epoch == where.epoch:
                return place
            past, place = place, self._reach(where.address, where.epoch)
            self._lives[where.address] = where.epoch, place
            self._resting.pop(where.address, None)
        if past is not None:
            self.touched.drop(past)
            past.leave()
        return place

    def _asking(self) -> Line | None:
        told = self._told()
        if told is None or not told.directory:
            return None
        line = self._line
        if line is None or line.addresses != told.directory:
            line = self._line = Line(self._engine, told.directory, TIMEOUT)
        return line

    def _digests(self, keys: Sequence[Key], rows: Rows) -> Digests:
        told = self._told()
        wanted = [] if told is None else [keys[at] for at in rows.tolist()]
        return _core.digest(wanted, bytes(16) if told is None else told.secret)

    def _sent_to(self, keys: Sequence[Key], left: Rows) -> Iterator[tuple[NodeAt, Rows]]:
        """Where some of these were put a moment ago."""
        if self.sent:
            for node, rows in self.sent.ways(self._digests(keys, left)):
                yield node, left[rows]

    def _directed(self, digests: Digests, left: Rows) -> Iterator[tuple[NodeAt, Rows]] | None:
        """Where the directory says that they are; None: there is none that answers."""
        line, told = self._asking(), self._told()
        if line is None or told is None:
            return None
        if time.monotonic() < self._alone:
            return iter(())
        asked = time.monotonic()
        try:
            parts = [
                (rows, line.ask(d.Lookup(m.column_of(digests[some]), told.epoch), d.Placed))
                for some, rows in _pieces(left, d.MOST)
            ]
        except ClosedError:
            raise
        except Error as error:
            logger.info("no directory answered: %s", error)
            return None
        found = [(rows, placed) for rows, placed in parts if isinstance(placed, d.Placed)]
        if all(placed.members <= 1 for _, placed in found):
            self._alone = asked + ALONE
        return self._places_of(found, told.epoch)

    def _places_of(
        self, found: list[tuple[Rows, d.Placed]], own: int
    ) -> Iterator[tuple[NodeAt, Rows]]:
        """First where each key was named first. The own node has been asked."""
        for rows, placed in found:
            places = d.places_in(placed, len(rows))
            for column in range(_core.PLACES):
                for number, where in placed.nodes.items():
                    some = rows[places[:, column] == number]
                    if len(some) and where.epoch != own:
                        yield self._told_at(where), some

    def _rests(self, node: NodeAt) -> bool:
        return time.monotonic() < self._resting.get(node.address, 0.0)


def _left(answers: Answers) -> Rows:
    return np.flatnonzero(MAY_BE[answers])


def _pieces(left: Rows, most: int) -> Iterator[tuple[slice, Rows]]:
    """As many as a message may name."""
    for first in range(0, len(left), most):
        some = slice(first, first + most)
        yield some, left[some]
