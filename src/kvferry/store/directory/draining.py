"""Before a node ends: copying what nobody else has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import log
from ...errors import Error
from ..answers import Answer, Digests
from ..clock import now
from ..messages import column_of
from ..table import Words
from . import messages as m
from .copier import Copier
from .line import Line

if TYPE_CHECKING:
    from ..node import Node

__all__ = ["Draining", "Moved"]

logger = log.get("kvferry.directory")

DRAIN = 512  # keys that are asked about at once
SHOWN = 8  # of those that were not copied; all of them stand in Moved


class Moved(NamedTuple):
    """What a drain did: how many objects others have now, and the digests of all that nobody else
    has."""

    elsewhere: int
    left: Digests


class Draining:
    """Of a node that has taken leave of the directory."""

    def __init__(self, node: Node, line: Line, copier: Copier) -> None:
        self._node = node
        self._line = line
        self._copier = copier
        self._others = False  # there are other nodes, as far as was told

    def run(self, until: int, hurried: Callable[[], bool]) -> Moved:
        """Copy what nobody else has, until then, ns, or until hurried. Blocks."""
        count, left = 0, [np.zeros((0, 2), np.uint64)]
        for digests, sizes in self._all():
            alone = np.ones(len(digests), np.bool_)
            if now() < until and not hurried():
                try:
                    alone = self._copy_if_alone(digests, sizes)
                except Error as error:
                    logger.warning("what is here was not copied: %s", error)
            count += int((~alone).sum())
            left.append(digests[alone])
        moved = Moved(count, np.concatenate(left))
        some = ", ".join(f"{low:016x}{high:016x}" for low, high in moved.left[:SHOWN].tolist())
        if some and self._others:
            logger.warning("nobody else has %d objects: %s ...", len(moved.left), some)
        logger.info("others have %d of %d objects", count, count + len(moved.left))
        return moved

    def _all(self) -> list[tuple[Digests, Words]]:
        """Digests and lengths of all that is here."""
        with self._node.clerk:
            entries = self._node.index.scan(0, self._node.index.capacity)
        digests, lengths = np.array(entries["digest"]), np.array(entries["length"])
        pieces = range(0, len(digests), DRAIN)
        return [(digests[at : at + DRAIN], lengths[at : at + DRAIN]) for at in pieces]

    def _copy_if_alone(self, digests: Digests, sizes: Words) -> NDArray[np.bool_]:
        """Of which nobody else has a copy afterwards."""
        columns = column_of(digests), column_of(sizes)
        epoch = self._node.engine.epoch
        placed = self._line.ask(m.Choose(epoch, 1, *columns), m.Placed)
        alone = np.ones(len(digests), np.bool_)
        if not isinstance(placed, m.Placed):
            return alone
        targets = m.places_in(placed, len(digests))[:, 0]
        self._others = placed.members > 1
        alone[m.held_in(placed, len(digests)) != 0] = False
        for number in np.unique(targets[targets != 0]).tolist():
            some = np.flatnonzero(targets == number)
            address = placed.nodes[number].address
            copied = self._copier.copy(address, digests[some], paced=False) <= Answer.PRESENT
            alone[some[copied]] = False
        return alone
