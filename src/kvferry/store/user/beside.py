"""What lies on a disk of the node: brought into memory, and read there."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .. import messages as m
from ..answers import Answer, Answers, Digests
from ..table import Ints
from .home import Home

__all__ = ["DISK", "Again", "read_beside"]

DISK = "store.ssd"  # the region of a node with a disk

WAITS = (0.0, 0.001, 0.005, 0.02, 0.1)  # seconds after rounds in which nothing came of it
CROWDED, BUSY_FOR = 0.2, 5.0  # seconds of such rounds: memory has no room; the disk has no time

FOUND, BUSY = int(Answer.FOUND), int(Answer.BUSY)

# There is no room for it in memory, but there may be when others have read what they read.
PASSING = (BUSY, int(Answer.FULL), int(Answer.FRAGMENTED))

# Reads these rows once more where they lie in memory, and answers them; which are not there again.
Again = Callable[[Ints], NDArray[np.bool_]]


def read_beside(
    home: Home, digests: Digests, answers: Answers, beside: NDArray[np.bool_], again: Again
) -> None:
    """Have what is `beside` brought in and read it, as much at a time as the node has room for in
    memory; an answer each.

    What leaves memory before it was read, and what found no room there, is asked for again, and
    after a fifth of a second of that is CHANGING, or why there is no room; what the disk has not
    given after five seconds, too, is CHANGING. Raises as asking the node does.
    """
    left, turn, since = np.flatnonzero(beside), 0, time.monotonic()
    while len(left):
        reply = home.ask(m.Fetch(m.column_of(digests[left])), m.Told)
        told = m.answers_in(reply.answers)
        m.check_rows(len(left), told)
        answers[left] = np.where(told == BUSY, Answer.CHANGING, told)
        there = left[told == FOUND]
        gone = again(there) if len(there) else np.zeros(0, np.bool_)
        answers[there[gone]] = Answer.CHANGING
        before, left = len(left), np.concatenate((there[gone], left[np.isin(told, PASSING)]))
        waited = time.monotonic() - since
        if len(left) < before:
            turn, since = 0, time.monotonic()
        elif waited > (BUSY_FOR if BUSY in told else CROWDED):
            return
        else:
            time.sleep(WAITS[min(turn, len(WAITS) - 1)])
            turn += 1
