"""Requests that were really made, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Call", "Ints", "Trace", "trace_of"]

Ints = NDArray[np.int64]
NO_IDS = np.zeros(0, np.uint64)
ONE = np.uint64(1)
SPARSE = 4  # as many times larger than their count may ids be that a table of them is made


class Call(NamedTuple):
    """One request as a line tells it.

    at      seconds, from any moment that all lines of a file share
    inputs  tokens of the prompt, outputs those of the answer
    ids     one for each block of the prompt: equal ids, equal prefix up to there; within `scope`
    scope   a number from 0 on
    """

    at: float
    inputs: int
    outputs: int
    ids: NDArray[np.uint64] = NO_IDS
    scope: int = 0


@dataclass(frozen=True)
class Trace:
    """Requests in the order of their arrival, a row each; equal arrivals in the order of lines.

        blocks   | of request 0 | of request 1 | ...     numbers from 0 to `unique`, head first
        starts   0              ^              ^         one more than there are requests

    arrivals      seconds, the first is 0
    inputs        tokens; a block is of `block_tokens`, the last one of a request maybe of fewer
    block_tokens  0: the format names no blocks
    skipped       lines that were bad
    """

    format: str
    block_tokens: int
    arrivals: NDArray[np.float64]
    inputs: Ints
    outputs: Ints
    starts: Ints
    blocks: Ints
    unique: int
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.arrivals)

    def of(self, request: int) -> Ints:
        """Its blocks, head first."""
        return self.blocks[self.starts[request] : self.starts[request + 1]]

    @property
    def lengths(self) -> Ints:
        """How many blocks each request has."""
        return np.diff(self.starts)

    def tokens(self, prefix: Ints) -> Ints:
        """Tokens in so many leading blocks of each request."""
        return np.minimum(prefix * self.block_tokens, self.inputs)

    def unshared(self, block_tokens: int) -> Trace:
        """With blocks of so many tokens that no two requests share: the load of a trace that names
        none."""
        starts = np.concatenate(([0], np.cumsum(-(-self.inputs // block_tokens))))
        blocks = np.arange(starts[-1])
        return replace(
            self, block_tokens=block_tokens, starts=starts, blocks=blocks, unique=len(blocks)
        )

    def parents(self) -> Ints:
        """Of each block the one before it where it was named first; a head names itself."""
        before = np.concatenate((self.blocks[:1], self.blocks[:-1]))
        heads = self.starts[:-1][self.lengths > 0]
        before[heads] = self.blocks[heads]
        found = np.empty(self.unique, np.int64)
        found[self.blocks[::-1]] = before[::-1]  # of several writes the last one stands
        return found


def trace_of(calls: Iterable[Call], name: str, block_tokens: int, skipped: int = 0) -> Trace:
    """The columns of these, sorted by arrival."""
    rows = sorted(calls, key=lambda call: call.at)
    lengths = [len(call.ids) for call in rows]
    blocks, unique = _numbered(rows, lengths)
    arrivals = np.array([call.at for call in rows], np.float64)
    return Trace(
        format=name,
        block_tokens=block_tokens,
        arrivals=arrivals - (arrivals[0] if len(rows) else 0.0),
        inputs=np.array([call.inputs for call in rows], np.int64),
        outputs=np.array([call.outputs for call in rows], np.int64),
        starts=np.array([0, *accumulate(lengths)], np.int64),
        blocks=blocks,
        unique=unique,
        skipped=skipped,
    )


def _numbered(rows: Sequence[Call], lengths: Sequence[int]) -> tuple[Ints, int]:
    """Ids as numbers from 0 on, those of each scope apart; and how many there are."""
    ids = np.concatenate([NO_IDS, *(call.ids for call in rows)])
    if not any(call.scope for call in rows):
        return _dense(ids)
    spans = np.zeros(max(call.scope for call in rows) + 2, np.uint64)
    for call in rows:
        spans[call.scope + 1] = max(spans[call.scope + 1], call.ids.max(initial=0) + ONE)
    ids += np.repeat(spans.cumsum()[[call.scope for call in rows]], lengths)
    return _dense(ids)


def _dense(ids: NDArray[np.uint64]) -> tuple[Ints, int]:
    largest = int(ids.max(initial=0))
    if largest > SPARSE * len(ids):
        kinds, numbers = np.unique(ids, return_inverse=True)
        return numbers.astype(np.int64).reshape(-1), len(kinds)
    seen = np.zeros(largest + 1, np.bool_)
    seen[ids] = True
    return (seen.cumsum() - 1)[ids], int(seen.sum())
