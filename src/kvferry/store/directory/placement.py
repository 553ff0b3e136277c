"""Where else to put what one node has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..answers import Digests
from ..table import Words
from .membership import Member, Spans, State
from .messages import Places

__all__ = ["Candidates", "choose"]

LEAST_RAMP = 0.05  # of its weight has a node that has just come
LEAST_FREE = 1 / 16  # of its capacity counts as free in a full pool, which makes room for more
LOTS = 1 << 18  # drawn at once
ODD = np.uint64(0x9E3779B97F4A7C15)


class Candidates(NamedTuple):
    """Nodes that may be given something; a row each.

    weights  bytes: what is free, less of a node that is new
    domains  as small numbers; `domain_of` tells that of any node by its number, 0: of none
    """

    numbers: NDArray[np.uint16]
    epochs: Words
    weights: NDArray[np.float64]
    capacities: Words
    domains: NDArray[np.int64]
    domain_of: NDArray[np.int64]

    @classmethod
    def of(cls, members: Sequence[Member], spans: Spans, now: int) -> Candidates:
        names = {name: at for at, name in enumerate({each.domain: 0 for each in members}, 1)}
        domain_of = np.zeros(1 << 16, np.int64)
        for each in members:
            domain_of[each.number] = names[each.domain]
        here = [each for each in members if each.state is State.ALIVE]
        numbers = np.array([each.number for each in here], np.uint16)
        return cls(
            numbers,
            np.array([each.epoch for each in here], np.uint64),
            np.array([_weight(each, spans, now) for each in here], np.float64),
            np.array([each.capacity for each in here], np.uint64),
            domain_of[numbers],
            domain_of,
        )


def _weight(member: Member, spans: Spans, now: int) -> float:
    free = max(member.free, member.capacity * LEAST_FREE)
    return max(free, 1.0) * min(max((now - member.since) / spans.ramp, LEAST_RAMP), 1.0)


def choose(
    digests: Digests, sizes: Words, taken: Places, copies: NDArray[np.int64], there: Candidates
) -> Places:
    """For each key `copies` nodes that have it not; fewer where there are no more, 0 at the end.

    taken  who has it. Those of another domain than all that have it come first. Which of them does
           not depend on who asks: lots are drawn from the digest, by the nodes' weights.
    """
    chosen = np.zeros((len(digests), _core.PLACES), np.uint16)
    if not len(there.numbers):
        return chosen
    step = max(LOTS // len(there.numbers), 1)
    for first in range(0, len(digests), step):
        some = slice(first, first + step)
        chosen[some] = _draw(digests[some], sizes[some], taken[some], copies[some], there)
    return chosen


def _draw(
    digests: Digests, sizes: Words, taken: Places, copies: NDArray[np.int64], there: Candidates
) -> Places:
    chosen, rows = np.zeros((len(digests), _core.PLACES), np.uint16), np.arange(len(digests))
    lots = -np.log(_uniform(digests, there.epochs)) * (there.weights.max() / there.weights)
    lots /= 1 + lots  # below 1
    barred = sizes[:, None] > there.capacities
    have = np.array(taken)
    for column in range(int(copies.max())):
        barred |= (have[:, None, :] == there.numbers[:, None]).any(2)
        domains = np.where(have == 0, -1, there.domain_of[have])
        near = (domains[:, None, :] == there.domains[:, None]).any(2)
        best = np.where(barred, np.inf, lots + near).argmin(1)
        good = (copies > column) & ~barred[rows, best]
        chosen[good, column] = there.numbers[best[good]]
        have = np.concatenate((have, chosen[:, column : column + 1]), 1)
    return chosen


def _uniform(digests: Digests, epochs: Words) -> NDArray[np.float64]:
    """In (0, 1), for each key and node."""
    words = (digests[:, :1] ^ (epochs * ODD)) * (digests[:, 1:] | np.uint64(1))
    words ^= words >> np.uint64(32)
    words *= ODD
    top: NDArray[np.float64] = ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return top
