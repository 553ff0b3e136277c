"""The yardstick: how fast this machine copies the same blocks when nothing else is done.

The best copy variant, in as many Python threads as the case has copying threads, between the same
two mappings. Nothing of it is shared with submission: no batch, no check, no completion, another
native loop.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from statistics import median
from types import TracebackType
from typing import NamedTuple

from .. import _core
from .walk import Move

__all__ = ["Limit", "Mappings"]

ROUNDS = 3


class Mappings(NamedTuple):
    """Addresses in this process of byte 0 of either side."""

    local: int
    remote: int


class Limit:
    """Copies moves; remembers for each kind of case the variant that was best. Close it."""

    def __init__(self) -> None:
        self._best: dict[Hashable, str] = {}
        self._pool = ThreadPoolExecutor(thread_name_prefix="limit")

    def best(
        self, key: Hashable, op: str, at: Mappings, passes: Iterable[Sequence[Move]], threads: int
    ) -> str:
        """The variant of the highest median speed for `key`, tried out at its first use."""
        if key not in self._best:
            todo = list(islice(passes, ROUNDS))
            taken = {
                variant: median(self.copy(variant, op, at, moves, threads) for moves in todo)
                for variant in _core.copy_variants()
            }
            self._best[key] = min(taken, key=lambda variant: taken[variant])
        return self._best[key]

    def copy(
        self, variant: str, op: str, at: Mappings, moves: Sequence[Move], threads: int
    ) -> float:
        """Seconds it takes to copy `moves` in `threads` threads, a contiguous share each."""
        shares = [_share(moves, number, threads) for number in range(threads)]
        if threads == 1:
            begin, end = _copy(variant, op, at, shares[0])
            return (end - begin) / 1e9
        running = [self._pool.submit(_copy, variant, op, at, share) for share in shares]
        spans = [each.result() for each in running]
        return (max(end for _, end in spans) - min(begin for begin, _ in spans)) / 1e9

    def __enter__(self) -> Limit:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown()


def _share(moves: Sequence[Move], number: int, of: int) -> list[Move]:
    def cut(move: Move) -> slice:
        return slice(len(move.local) * number // of, len(move.local) * (number + 1) // of)

    return [
        move._replace(local=move.local[cut(move)], remote=move.remote[cut(move)]) for move in moves
    ]


def _copy(variant: str, op: str, at: Mappings, moves: Sequence[Move]) -> tuple[int, int]:
    """When it began and ended, in nanoseconds."""
    begin = time.perf_counter_ns()
    for move in moves:
        ours, theirs = at.local + move.base, at.remote + move.base
        if op == "write":
            _core.copy_blocks(variant, theirs, move.remote, ours, move.local, move.block)
        else:
            _core.copy_blocks(variant, ours, move.local, theirs, move.remote, move.block)
    return begin, time.perf_counter_ns()
