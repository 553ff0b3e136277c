"""Removing objects at other nodes, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import _core, log
from ...errors import ClosedError, Error
from .. import messages as m
from ..answers import Answer, Answers
from .elsewhere import Elsewhere
from .found import Key
from .node_at import NodeAt

__all__ = ["remove_elsewhere"]

logger = log.get("kvferry.store")

# Of several answers about one key that which stands: the last of these.
ORDER = (Answer.ABSENT, Answer.REMOVED, Answer.LEASED, Answer.NODE_GONE)
RANK = np.full(256, len(ORDER), np.uint8)
RANK[list(ORDER)] = range(len(ORDER))


def remove_elsewhere(
    others: Elsewhere, keys: Sequence[Key], answers: Answers, force: bool = False
) -> Answers:
    """What is true of each key after it was removed wherever the directory says that it is, too;
    `answers` are the own node's. NODE_GONE: such a node did not answer. Blocks."""
    for node, rows in others.told(keys):
        more = _removed(node, [keys[at] for at in rows.tolist()], force)
        others.touched.note(node)
        answers[rows] = np.where(RANK[more] > RANK[answers[rows]], more, answers[rows])
    return answers


def _removed(node: NodeAt, keys: Sequence[Key], force: bool) -> Answers:
    try:
        home = node.home
        column = m.column_of(_core.digest(keys, home.joined.secret))
        answers = m.answers_in(home.ask(m.Remove(column, force), m.Told).answers)
        m.check_rows(len(keys), answers)
    except ClosedError:
        raise
    except Error as error:
        logger.info("%s removed nothing: %s", node.address, error)
        return np.full(len(keys), Answer.NODE_GONE, np.uint8)
    return answers
