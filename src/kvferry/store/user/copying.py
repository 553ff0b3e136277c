"""Having nodes copy objects to another node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ... import log
from ...address import parse
from ...errors import ClosedError, Error
from .. import messages as m
from ..answers import Answer, Answers
from .elsewhere import Elsewhere
from .found import Key
from .home import Home
from .keys import digests_of
from .node_at import NodeAt

__all__ = ["copies_at"]

logger = log.get("kvferry.store")

TIMEOUT = 60.0  # seconds for so many keys as a message takes, at a low rate

GOOD, ABSENT = int(Answer.PRESENT), int(Answer.ABSENT)


def copies_at(own: NodeAt, others: Elsewhere, keys: Sequence[Key], to: str) -> Answers:
    """What the node at `to` says of each, after those that have it were asked to copy it there:
    first the own one, then where the directory says. ABSENT: none of them has it."""
    digests_of(keys, bytes(16))  # raises for what is no key
    address = str(parse(to))
    answers = np.full(len(keys), ABSENT, np.uint8)
    for node, rows in _holders(own, others, keys):
        left = rows[answers[rows] > GOOD]
        if len(left):
            said = _copied(node, [keys[at] for at in left.tolist()], address)
            answers[left] = np.where(said == ABSENT, answers[left], said)
    return answers


def _holders(
    own: NodeAt, others: Elsewhere, keys: Sequence[Key]
) -> Iterator[tuple[NodeAt, NDArray[np.intp]]]:
    yield own, np.arange(len(keys))
    yield from others.told(keys)


def _copied(node: NodeAt, keys: Sequence[Key], to: str) -> Answers:
    try:
        home = node.home
        parts = [
            _ask(home, keys[first : first + m.COPIES], to)
            for first in range(0, len(keys), m.COPIES)
        ]
    except ClosedError:
        raise
    except Error as error:
        logger.info("%s copied nothing: %s", node.address, error)
        return np.full(len(keys), Answer.NODE_GONE, np.uint8)
    return np.concatenate(parts)


def _ask(home: Home, keys: Sequence[Key], to: str) -> Answers:
    column = m.column_of(digests_of(keys, home.joined.secret))
    answers = m.answers_in(home.ask(m.Copy(column, to), m.Told, TIMEOUT).answers)
    m.check_rows(len(keys), answers)
    return answers
