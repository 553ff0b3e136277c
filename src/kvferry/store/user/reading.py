"""Reading: first where the user is at home, then at other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import _core, log
from ...engine import Transfer
from ...errors import ClosedError, NotQuiet, PathRefused, PeerError, Timeout
from .. import messages as m
from ..answers import Answer, Answers, Cause
from ..table import Ints
from .far import Far, Fetched
from .home import Home
from .near import Near
from .node_at import NodeAt

__all__ = ["Key", "Reading", "Why"]

logger = log.get("kvferry.store")

Key = str | bytes
Room = Callable[[int, int], Any | None]
Watch = Callable[[Transfer], None]

# What the index reader says -> what is answered.
_SAID = np.zeros(256, np.uint8)
for _status, _answer in (
    (_core.HIT, Answer.FOUND),
    (_core.ABSENT, Answer.ABSENT),
    (_core.TOO_SMALL, Answer.TOO_SMALL),
    (_core.CHANGING, Answer.CHANGING),
    (_core.NO_LINE, Answer.BUSY),
    (_core.FOREIGN, Answer.NODE_GONE),
    (_core.CORRUPT, Answer.CORRUPT),
):
    _SAID[_status] = _answer

# A node that answers so is gone, or as good as gone, for this question.
UNREACHABLE = (PeerError, Timeout, ClosedError, PathRefused)

# What another node may still have.
ELSEWHERE = (Answer.ABSENT, Answer.NODE_GONE, Answer.CORRUPT)


class Why(NamedTuple):
    """Why a key is not there, or where it is.

    cause  PRESENT when it is there
    node   which node says so; None: none had anything to say
    """

    cause: Cause
    node: str | None


class Reading:
    """Thread-safe.

    own     the node that is asked first
    others  places that its own node and the user know of beside
    """

    def __init__(self, own: NodeAt, others: Callable[[], Sequence[NodeAt]]) -> None:
        self._own = own
        self._others = others

    def into(self, keys: Sequence[Key], outs: Sequence[Any], watch: Watch) -> Fetched:
        """Fill outs[i] with the object of keys[i], where it is there and fits."""

        def room(at: int, length: int) -> Any | None:
            return outs[at] if length <= memoryview(outs[at]).nbytes else None

        home = self._home()
        if isinstance(home, Near):
            codes, lengths = home.reader.get_all(keys, outs)
            found = Fetched(_SAID[codes], lengths)
        elif isinstance(home, Far):
            found = self._ask(home, keys, np.arange(len(keys)), room, watch)
        else:
            found = nobody(len(keys), Answer.NODE_GONE)
        return self._elsewhere(keys, found, room, watch)

    def copies(self, keys: Sequence[Key], watch: Watch) -> tuple[Fetched, list[bytes | None]]:
        """The object of each key, in memory of its own."""
        home = self._home()
        if isinstance(home, Near):
            found, made = _copies(home, keys)
            return self.copies_elsewhere(keys, found, made, watch)
        if home is None:
            gone = nobody(len(keys), Answer.NODE_GONE)
            return self.copies_elsewhere(keys, gone, [None] * len(keys), watch)
        landing = _Landing([None] * len(keys))
        found = self._ask(home, keys, np.arange(len(keys)), landing.room, watch)
        return self.copies_elsewhere(keys, found, landing.made, watch)

    def copies_elsewhere(
        self, keys: Sequence[Key], found: Fetched, made: list[Any], watch: Watch
    ) -> tuple[Fetched, list[bytes | None]]:
        """With what the own node said of each, and what was copied from there."""
        landing = _Landing(made)
        found = self._elsewhere(keys, found, landing.room, watch)
        there = (found.answers == Answer.FOUND).tolist()
        return found, [
            bytes(each) if good else None for each, good in zip(landing.made, there, strict=True)
        ]

    def exists(self, keys: Sequence[Key]) -> Answers:
        """FOUND, ABSENT or NODE_GONE each."""
        home = self._home()
        if isinstance(home, Near):
            digests = _core.digest(keys, home.joined.secret)
            answers = _SAID[home.reader.exists(digests)]
        elif isinstance(home, Far):
            answers = self._asked_exists(home, keys)
        else:
            answers = nobody(len(keys), Answer.NODE_GONE).answers
        for other in self._reachable(answers):
            left = np.flatnonzero(np.isin(answers, ELSEWHERE))
            there = self._asked_exists(other, _chosen(keys, left)) == Answer.FOUND
            answers[left[there]] = Answer.FOUND
        return answers

    def why(self, keys: Sequence[Key]) -> Why:
        """Of one key. The first node that has it says so; else the first that knows more than
        nothing."""
        told = [self._asked_why(home, keys) for home in self._homes()]
        for why in told:
            if why.cause is Cause.PRESENT:
                return why
        known = [why for why in told if why.cause not in (Cause.NEVER, Cause.NODE_GONE)]
        gone = [why for why in told if why.cause is Cause.NODE_GONE]
        return (known + gone + told)[0]

    # ---- steps ----

    def _home(self) -> Home | None:
        try:
            return self._own.home
        except UNREACHABLE:
            return None

    def _homes(self) -> Iterator[Home | str]:
        """Every node there is, by its address where it is gone."""
        for place in (self._own, *self._others()):
            try:
                yield place.home
            except UNREACHABLE:
                yield place.address

    def _reachable(self, answers: Answers) -> Iterator[Home]:
        """Other nodes, as long as somebody's key is not found."""
        for place in self._others():
            if not np.isin(answers, ELSEWHERE).any():
                return
            try:
                yield place.home
            except UNREACHABLE:
                continue

    def _elsewhere(self, keys: Sequence[Key], found: Fetched, room: Room, watch: Watch) -> Fetched:
        for home in self._reachable(found.answers):
            left = np.flatnonzero(np.isin(found.answers, ELSEWHERE))
            more = self._ask(home, _chosen(keys, left), left, room, watch)
            better = more.answers != Answer.ABSENT
            better &= more.answers != Answer.NODE_GONE
            found.answers[left[better]] = more.answers[better]
            found.lengths[left[better]] = more.lengths[better]
        return found

    def _ask(
        self, home: Home, keys: Sequence[Key], which: Ints, room: Room, watch: Watch
    ) -> Fetched:
        if isinstance(home, Near):
            return _held(home, keys, lambda at, length: room(int(which[at]), length))
        assert isinstance(home, Far), "there are no others"
        try:
            digests = _core.digest(keys, home.joined.secret)
            return home.fetch(digests, lambda at, length: room(int(which[at]), length), watch)
        except NotQuiet:  # bytes may still land in the buffers, which only the caller can keep
            raise
        except UNREACHABLE as error:
            logger.info("%s did not answer a read: %s", home.name, error)
            return nobody(len(keys), Answer.NODE_GONE)

    def _asked_exists(self, home: Home, keys: Sequence[Key]) -> Answers:
        column = m.column_of(_core.digest(keys, home.joined.secret))
        try:
            causes = m.answers_in(home.ask(m.Why(column), m.Told).answers)
            m.check_rows(len(keys), causes)
        except UNREACHABLE:
            return nobody(len(keys), Answer.NODE_GONE).answers
        return np.where(causes == Cause.PRESENT, Answer.FOUND, Answer.ABSENT).astype(np.uint8)

    def _asked_why(self, home: Home | str, keys: Sequence[Key]) -> Why:
        if isinstance(home, str):
            return Why(Cause.NODE_GONE, home)
        column = m.column_of(_core.digest(keys, home.joined.secret))
        try:
            (cause,) = home.ask(m.Why(column), m.Told).answers
            return Why(Cause(cause), home.name)
        except (*UNREACHABLE, ValueError):
            return Why(Cause.NODE_GONE, home.name)


class _Landing:
    """Where objects of unknown length are read to: memory that is made when they are found."""

    def __init__(self, made: list[Any]) -> None:
        self.made = made

    def room(self, at: int, length: int) -> Any:
        self.made[at] = bytearray(length)
        return self.made[at]


def _copies(home: Near, keys: Sequence[Key]) -> tuple[Fetched, list[Any]]:
    """Each copied while it is held where it lies."""
    answers = np.zeros(len(keys), np.uint8)
    lengths = np.zeros(len(keys), np.uint64)
    made: list[Any] = [None] * len(keys)
    for at, key in enumerate(keys):
        status, block = home.reader.block(key, home)
        if block is not None:
            with block as memory:
                made[at] = bytes(memory)
            lengths[at] = len(made[at])
        answers[at] = _SAID[status]
    return Fetched(answers, lengths), made


def _held(home: Near, keys: Sequence[Key], room: Room) -> Fetched:
    """The same into buffers that are asked for when the length is known."""
    answers = np.zeros(len(keys), np.uint8)
    lengths = np.zeros(len(keys), np.uint64)
    for at, key in enumerate(keys):
        status, block = home.reader.block(key, home)
        answers[at] = _SAID[status]
        if block is None:
            continue
        with block as memory:
            lengths[at] = memory.nbytes
            out = room(at, memory.nbytes)
            if out is None:
                answers[at] = Answer.TOO_SMALL
            elif memory.nbytes:
                np.copyto(np.frombuffer(out, np.uint8)[: memory.nbytes], memory)
    return Fetched(answers, lengths)


def nobody(count: int, answer: Answer) -> Fetched:
    return Fetched(np.full(count, answer, np.uint8), np.zeros(count, np.uint64))


def _chosen(keys: Sequence[Key], which: NDArray[np.intp]) -> list[Key]:
    return [keys[at] for at in which.tolist()]
