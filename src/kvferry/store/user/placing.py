"""Putting at more than the own node: copies, what the own node refused, what others should have.

Rows are those of the values of one put. A directory names the nodes; what one of them refuses, or
does not answer, is lacking there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..answers import Answer, Answers, Kind
from ..directory import messages as d
from ..table import Ints
from .elsewhere import Elsewhere
from .node_at import NodeAt
from .values import Values

__all__ = ["more", "place"]

Counts = NDArray[np.uint8]
Put = Callable[[Values], Answers]

STORED, PRESENT, NODE_GONE = int(Answer.STORED), int(Answer.PRESENT), int(Answer.NODE_GONE)
GOOD = bytes([STORED, PRESENT])
REFUSED = np.array([answer.kind is Kind.REFUSED for answer in Answer])


def place(
    others: Elsewhere,
    own: Put,
    values: Values,
    new: Ints,
    replicas: int = 1,
    prefer: Sequence[str] = (),
) -> tuple[Answers, Counts | None]:
    """Put those that are `new`; the rest is PRESENT at the own node. An answer each, and how many
    nodes have each, None: nobody asked.

    own     puts at the own node
    prefer  addresses of nodes that should rather have them
    """
    answers = np.full(len(values.lengths), PRESENT, np.uint8)
    if prefer:
        counts = np.ones(len(answers), np.uint8)
        preferred = _preferring(others, own, values.some(new), replicas, prefer)
        answers[new], counts[new] = preferred.answers, preferred.counts
        return answers, counts
    if len(new):
        answers[new] = own(values.some(new))
    return answers, more(others, values, answers, replicas)


def more(others: Elsewhere, values: Values, answers: Answers, replicas: int = 1) -> Counts | None:
    """After a put at the own node: have copies made of what was STORED there, and put to others
    what it refused, whose answers are changed then. Blocks."""
    counts = None if replicas == 1 else _copy(others, values, answers, replicas)
    if answers.tobytes().strip(GOOD):
        refused = np.flatnonzero(REFUSED[answers])
        placing = _Placing(others, values.some(refused), replicas)
        placing.answers[:] = answers[refused]
        placing.anywhere()
        answers[refused] = placing.answers
        if counts is not None:
            counts[refused] = placing.counts
    return counts


def _preferring(
    others: Elsewhere, own: Put, values: Values, replicas: int, addresses: Sequence[str]
) -> _Placing:
    """First at the nodes at these addresses, in this order, as far as so many nodes should have
    each; then at the own one, then at others."""
    placing = _Placing(others, values, replicas)
    for address in addresses:
        if others.is_own(address):
            placing.own(own)
        else:
            placing.at(others.named(address))
    placing.own(own)
    placing.anywhere()
    return placing


class _Placing:
    """answers  of each value: the best, and of refusals the first
    counts   how many nodes have each, as they have answered themselves
    """

    def __init__(self, others: Elsewhere, values: Values, wanted: int) -> None:
        self.answers = np.full(len(values.lengths), Answer.NODE_GONE, np.uint8)
        self.counts = np.zeros(len(values.lengths), np.uint8)
        self._others = others
        self._values = values
        self._wanted = wanted
        self._has: dict[int, NDArray[np.bool_]] = {}  # epoch of a node -> what it has

    def own(self, put: Put) -> None:
        epoch = self._others.own_epoch
        rows = self._lacking_at(epoch, np.arange(len(self.counts)))
        if len(rows):
            self._heard(epoch, rows, put(self._values.some(rows)))

    def at(self, node: NodeAt, rows: Ints | None = None) -> None:
        """What is lacking still, of these rows."""
        epoch = self._others.meet(node)
        if epoch is None:
            return
        rows = self._lacking_at(epoch, np.arange(len(self.counts)) if rows is None else rows)
        if len(rows):
            said = self._others.put(node, self._values.some(rows))
            self._heard(epoch, rows, said)
            good = rows[said <= PRESENT]
            self._others.sent.note(node, np.ascontiguousarray(self._values.digests[good]))

    def anywhere(self) -> None:
        """Where the directory says: first who has it, then one node after the other."""
        for rows in _pieces(np.flatnonzero(self.counts < self._wanted)):
            placed = self._others.chosen(self._values.some(rows), _core.PLACES)
            if placed is None:
                return
            if d.held_in(placed, len(rows)).any() or self._others.sent:
                for node, some in self._others.holding(self._values.digests[rows]):
                    self.at(node, rows[some])
            places = d.places_in(placed, len(rows))
            for column in range(_core.PLACES):
                for number, where in placed.nodes.items():
                    some = np.flatnonzero(places[:, column] == number)
                    if len(some):
                        self.at(self._others.living(where), rows[some])

    def _lacking_at(self, epoch: int, rows: Ints) -> Ints:
        rows = rows[self.counts[rows] < self._wanted]
        return rows[~self._has[epoch][rows]] if epoch in self._has else rows

    def _heard(self, epoch: int, rows: Ints, said: Answers) -> None:
        before, good = self.answers[rows], said <= PRESENT
        better = (good & (said < before)) | (before == NODE_GONE)
        self.answers[rows] = np.where(better, said, before)
        self.counts[rows] += good
        has = self._has.setdefault(epoch, np.zeros(len(self.counts), np.bool_))
        has[rows[good]] = True


def _copy(others: Elsewhere, values: Values, answers: Answers, copies: int) -> Counts:
    """Put what was STORED at the own node to others, that `copies` nodes have it: how many do,
    0 of what is not there at all."""
    counts = (answers <= PRESENT).astype(np.uint8)
    for there in _pieces(np.flatnonzero(counts)):
        placed = others.chosen(values.some(there), copies - 1)
        if placed is None:
            break
        counts[there] += d.held_in(placed, len(there))
        targets = d.places_in(placed, len(there)) * (answers[there] == STORED)[:, None]
        for number, where in placed.nodes.items():
            rows = there[(targets == number).any(1)]
            if len(rows):
                counts[rows] += others.put(others.living(where), values.some(rows)) <= PRESENT
    return counts


def _pieces(rows: Ints) -> Iterator[Ints]:
    """As many as a message may name."""
    for first in range(0, len(rows), d.CHOICES):
        yield rows[first : first + d.CHOICES]
