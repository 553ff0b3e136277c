"""A promise of a node that objects stay for a while."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from .. import messages as m
from ..answers import Answer, Answers, Digests
from ..clock import in_time, now
from .home import Home

__all__ = ["Lease", "leased_by", "span_of"]

FOREVER = float(1 << 31)  # seconds: longer than any node permits


class Lease:
    """Objects stay until it ends, is given back, or its user is gone. May be used as a context.

    held     for which of the keys it was given, in their order: the others are not there
    seconds  for how long it was given, which may be less than was asked for
    """

    def __init__(self, home: Home, ticket: int, span: int, asked: int, held: NDArray[np.bool_]):
        self.held = held
        self._home = home
        self._ticket = ticket
        self._span = span
        self._asked = asked

    @classmethod
    def of(cls, home: Home, digests: Digests, seconds: float) -> Lease:
        """Ask for one. Blocks; raises what asking raises."""
        asked = now()
        leased, answers = _leased(home, digests, span_of(seconds))
        return cls(home, leased.ticket, leased.lease, asked, answers == Answer.FOUND)

    @property
    def seconds(self) -> float:
        return self._span / 1e9

    @property
    def valid(self) -> bool:
        """Does it surely hold still?"""
        return bool(self._ticket) and in_time(self._asked, now(), self._span)

    def renew(self, seconds: float) -> bool:
        """Have it last so long from now on, and never shorter than before. False: it has ended, and
        the objects may have left."""
        asked, span = now(), min(span_of(seconds), self._home.joined.longest_lease)
        reply = self._home.ask(m.Renew(self._ticket, span), m.Told)
        held = reply.answers == bytes([Answer.FOUND])
        if held and asked + span > self._asked + self._span:
            self._asked, self._span = asked, span
        return held

    def release(self) -> None:
        """Give it back. Idempotent."""
        ticket, self._ticket = self._ticket, 0
        if ticket:
            self._home.ask(m.Release(np.array([ticket], np.uint64).tobytes()), m.Told)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def leased_by(home: Home, digests: Digests, span: int) -> Answers:
    """What the node says when it is asked to have these stay for so many ns, which nobody ends
    before: FOUND or ABSENT each. Blocks; raises what asking raises."""
    return _leased(home, digests, span)[1]


def _leased(home: Home, digests: Digests, span: int) -> tuple[m.Leased, Answers]:
    leased = home.ask(m.Lease(m.column_of(digests), span), m.Leased)
    answers = m.answers_in(leased.answers)
    m.check_rows(len(digests), answers)
    return leased, answers


def span_of(seconds: float) -> int:
    """In nanoseconds. Raises UsageError for what is no time."""
    if 0.0 <= seconds <= FOREVER:
        return int(seconds * 1e9)
    if seconds != seconds:
        raise UsageError(f"a lease cannot last {seconds} seconds", cause="lease")
    return 0 if seconds < 0.0 else int(FOREVER * 1e9)
