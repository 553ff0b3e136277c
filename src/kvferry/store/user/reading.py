"""Reading: first where the user is at home, then at other nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import _core, log
from ...errors import ClosedError, NotQuiet, PathRefused, PeerError, Timeout
from .. import messages as m
from ..answers import Answer, Answers, Cause
from .elsewhere import Elsewhere
from .found import Found, Key, Room, Watch, fitting
from .home import Home
from .node_at import NodeAt
from .targets import Target

__all__ = ["Reading", "Why"]

logger = log.get("kvferry.store")

# A node that answers so is gone, or as good as gone, for this question.
UNREACHABLE = (PeerError, Timeout, ClosedError, PathRefused)

PROBE = 1.0  # seconds in which a node that has let us wait must answer before it is asked more

NODE_GONE = int(Answer.NODE_GONE)

Rows = NDArray[np.intp]

Ask = Callable[[Home], Found]

# Makes what to ask for these keys, which are so of all.
Reads = Callable[[Sequence[Key], Rows], Ask]
Told = Callable[[Home, Sequence[Key]], Answers]


class Why(NamedTuple):
    """Why a key is not there, or where it is.

    cause  PRESENT when it is there
    node   which node says so; None: none had anything to say
    """

    cause: Cause
    node: str | None


class Reading:
    """Thread-safe. Raises TypeError and UnicodeEncodeError for what is no key, and what a read may
    raise whose buffers are not quiet.

    own     the node that is asked first
    others  where what is not there may be
    """

    def __init__(self, own: NodeAt, others: Elsewhere) -> None:
        self._own = own
        self._others = others

    def into(self, keys: Sequence[Key], outs: Sequence[Any], watch: Watch) -> Found:
        """Fill outs[i] with the object of keys[i], where it is there and fits."""
        found = self._asked_own(len(keys), lambda home: home.read_into(keys, outs, watch))
        return self._elsewhere(keys, found, _reads(fitting(outs), watch))

    def into_pieces(self, keys: Sequence[Key], target: Target, watch: Watch) -> Found:
        """Fill the rows of a target."""

        def reads(wanted: Sequence[Key], left: Rows) -> Ask:
            return lambda home: home.read_pieces(wanted, target, left, watch)

        found = self._asked_own(len(keys), lambda home: home.read_pieces(keys, target, None, watch))
        found = self._elsewhere(keys, found, reads)
        target.settle(found)
        return found

    def copies(self, keys: Sequence[Key], watch: Watch) -> tuple[Found, list[bytes | None]]:
        """The object of each key, in memory of its own."""
        landing = _Landing(len(keys))
        found = self._asked_own(len(keys), lambda home: home.read(keys, landing.room, watch))
        return landing.copies(self._elsewhere(keys, found, _reads(landing.room, watch)))

    def copies_elsewhere(
        self, keys: Sequence[Key], watch: Watch
    ) -> tuple[Found, list[bytes | None]]:
        """The same of keys that the own node has not."""
        landing = _Landing(len(keys))
        absent = Found.all(len(keys), Answer.ABSENT)
        return landing.copies(self._elsewhere(keys, absent, _reads(landing.room, watch)))

    def exists(self, keys: Sequence[Key]) -> Answers:
        """FOUND, ABSENT or NODE_GONE each."""
        return self._told(keys, _exists)

    def keep(self, keys: Sequence[Key], span: int) -> Answers:
        """The same, and what is FOUND stays for so many nanoseconds."""
        return self._told(keys, partial(_keep, span=span))

    def why(self, keys: Sequence[Key], tenant: str | None = None) -> Why:
        """Of one key. The first node that has it says so; else the first that knows more than
        nothing."""
        told = [_why(home, keys, tenant) for home in self._homes(keys)]
        for why in told:
            if why.cause is Cause.PRESENT:
                return why
        known = [why for why in told if why.cause not in (Cause.NEVER, Cause.NODE_GONE)]
        gone = [why for why in told if why.cause is Cause.NODE_GONE]
        return (known + gone + told)[0]

    # ---- steps ----

    def _asked_own(self, count: int, ask: Ask) -> Found:
        try:
            home = self._own.home
        except UNREACHABLE:
            return Found.all(count, Answer.NODE_GONE)
        return _ask(home, count, ask)

    def _told(self, keys: Sequence[Key], ask: Told) -> Answers:
        try:
            answers = ask(self._own.home, keys)
        except UNREACHABLE:
            answers = np.full(len(keys), NODE_GONE, np.uint8)
        for node, left in self._others.ways(keys, answers):
            more = self._asked_at(node, len(left), _found(ask, _chosen(keys, left)))
            answers[left[more.answers == Answer.FOUND]] = Answer.FOUND
        return answers

    def _homes(self, keys: Sequence[Key]) -> Iterator[Home | str]:
        """The own node and those that may know more, by their addresses where they are gone."""
        for node in (self._own, *self._others.knowing(keys)):
            try:
                yield node.home
            except UNREACHABLE:
                yield node.address

    def _asked_at(self, node: NodeAt, count: int, ask: Ask) -> Found:
        """Of another node, which is left alone for some time when it let us wait for nothing."""
        began = time.monotonic()
        try:
            home = node.home
            if self._others.doubts(node):
                home.ask(m.Release(b""), m.Told, PROBE)
            found = _ask(home, count, ask)
        except UNREACHABLE:
            found = Found.all(count, Answer.NODE_GONE)
        if NODE_GONE in found.answers.tobytes():
            self._others.rest(node, time.monotonic() - began)
        else:
            self._others.trust(node)
        return found

    def _elsewhere(self, keys: Sequence[Key], found: Found, reads: Reads) -> Found:
        for node, left in self._others.ways(keys, found.answers):
            more = self._asked_at(node, len(left), reads(_chosen(keys, left), left))
            better = (more.answers != Answer.ABSENT) & (more.answers != Answer.NODE_GONE)
            found.answers[left[better]] = more.answers[better]
            found.lengths[left[better]] = more.lengths[better]
        return found


class _Landing:
    """Where objects of unknown length are read to: memory that is made when they are found."""

    def __init__(self, count: int) -> None:
        self._made: list[bytearray | None] = [None] * count

    def room(self, at: int, length: int) -> bytearray:
        made = self._made[at] = bytearray(length)
        return made

    def copies(self, found: Found) -> tuple[Found, list[bytes | None]]:
        """Of what was found."""
        there = (found.answers == Answer.FOUND).tolist()
        pairs = zip(self._made, there, strict=True)
        return found, [bytes(made) if good and made is not None else None for made, good in pairs]


def _reads(room: Room, watch: Watch) -> Reads:
    """Into buffers."""

    def reads(wanted: Sequence[Key], left: Rows) -> Ask:
        return lambda home: home.read(wanted, lambda at, length: room(int(left[at]), length), watch)

    return reads


def _ask(home: Home, count: int, ask: Ask) -> Found:
    try:
        return ask(home)
    except NotQuiet:  # bytes may still land in the buffers, which only the caller can keep
        raise
    except UNREACHABLE as error:
        logger.info("%s did not answer a read: %s", home.name, error)
        return Found.all(count, Answer.NODE_GONE)


def _exists(home: Home, keys: Sequence[Key]) -> Answers:
    return home.exists(keys)


def _keep(home: Home, keys: Sequence[Key], span: int) -> Answers:
    return home.keep(keys, span)


def _found(ask: Told, wanted: Sequence[Key]) -> Ask:
    """To ask about these."""
    return lambda home: Found(ask(home, wanted), np.zeros(len(wanted), np.uint64))


def _why(home: Home | str, keys: Sequence[Key], tenant: str | None) -> Why:
    if isinstance(home, str):
        return Why(Cause.NODE_GONE, home)
    column = m.column_of(_core.digest(keys, home.joined.secret))
    try:
        (cause,) = home.ask(m.Why(column, tenant), m.Told).answers
        return Why(Cause(cause), home.name)
    except (*UNREACHABLE, ValueError):
        return Why(Cause.NODE_GONE, home.name)


def _chosen(keys: Sequence[Key], which: NDArray[np.intp]) -> list[Key]:
    return [keys[at] for at in which.tolist()]
