"""How fast this machine moves the same blocks when nothing else is done: the limit of a case.

A bare native loop, in as many Python threads as the case has copying threads, between the same
memory. Which loop depends on how the case's bytes cross: see yardsticks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import islice
from statistics import median
from types import TracebackType

from .timing import Pass, join
from .walk import Move
from .yardsticks import MEMORY, MOST_THREADS, Loop, Reach, Yardstick

__all__ = ["Limit"]

ROUNDS = 3


class Limit:
    """Moves by a yardstick between sides of `size` bytes; remembers for each kind of case the
    variant that was best. Close it.
    """

    def __init__(self, size: int, by: Yardstick = MEMORY) -> None:
        self.by = by
        self._size = size
        self._best: dict[Hashable, str] = {}
        self._loops: list[Loop] = []
        self._exit = ExitStack()
        self._pool = self._exit.enter_context(
            ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="limit")
        )

    def best(
        self, key: Hashable, op: str, at: Reach, passes: Iterable[Sequence[Move]], threads: int
    ) -> str:
        """The variant of the highest median speed for `key`, tried out at its first use."""
        if key not in self._best:
            todo = list(islice(passes, ROUNDS))
            taken = {
                variant: median(self.copy(variant, op, at, moves, threads) for moves in todo)
                for variant in self.by.variants
            }
            self._best[key] = min(taken, key=lambda variant: taken[variant])
        return self._best[key]

    def copy(self, variant: str, op: str, at: Reach, moves: Sequence[Move], threads: int) -> float:
        """Seconds it takes to move `moves` in `threads` threads."""
        first, *others = self.jobs(variant, op, at, moves, threads)
        if not others:
            return first().seconds
        running = [self._pool.submit(job) for job in (first, *others)]
        return join([each.result() for each in running]).seconds

    def jobs(
        self,
        variant: str,
        op: str,
        at: Reach,
        moves: Sequence[Move],
        threads: int,
        batches: int = 1,
    ) -> list[Callable[[], Pass]]:
        """What each of `threads` threads has to do: a contiguous share, in `batches` batches."""
        threads = min(threads, self.by.threads)
        while len(self._loops) < threads:
            self._loops.append(self._exit.enter_context(self.by.open(self._size)))
        return [
            partial(_timed, loop, variant, op, at, _share(moves, number, threads), batches)
            for number, loop in enumerate(self._loops[:threads])
        ]

    def close(self) -> None:
        self._exit.close()

    def __enter__(self) -> Limit:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _share(moves: Sequence[Move], number: int, of: int) -> list[Move]:
    def cut(move: Move) -> slice:
        return slice(len(move.local) * number // of, len(move.local) * (number + 1) // of)

    return [
        move._replace(local=move.local[cut(move)], remote=move.remote[cut(move)]) for move in moves
    ]


def _timed(
    loop: Loop, variant: str, op: str, at: Reach, moves: Sequence[Move], batches: int
) -> Pass:
    seconds = loop(variant, op, at, moves, batches)
    end = time.monotonic_ns()  # what a loop does first of all to prepare is not counted
    return Pass(end - int(seconds * 1e9), end, sum(move.bytes for move in moves))
