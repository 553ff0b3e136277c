"""What reading many keys found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ... import _core
from ...engine import Transfer
from ..answers import Answer, Answers
from ..table import Words

__all__ = ["SAID", "Found", "Key", "Room", "Watch", "fitting"]

Key: TypeAlias = str | bytes

# The buffer for object i, which is so long; None: it is not wanted.
Room: TypeAlias = Callable[[int, int], Any | None]


def fitting(outs: Sequence[Any]) -> Room:
    """outs[i] for object i, where it fits."""

    def room(at: int, length: int) -> Any | None:
        return outs[at] if length <= memoryview(outs[at]).nbytes else None

    return room


# Is shown each transfer that may take long, so that somebody can cancel it; None: nobody would.
Watch: TypeAlias = Callable[[Transfer], None] | None

# What an index reader says -> what is answered.
SAID = np.zeros(256, np.uint8)
for _status, _answer in (
    (_core.HIT, Answer.FOUND),
    (_core.ABSENT, Answer.ABSENT),
    (_core.TOO_SMALL, Answer.TOO_SMALL),
    (_core.CHANGING, Answer.CHANGING),
    (_core.NO_LINE, Answer.BUSY),
    (_core.FOREIGN, Answer.NODE_GONE),
    (_core.CORRUPT, Answer.CORRUPT),
    (_core.BESIDE, Answer.CHANGING),  # unless the node brings it in
):
    SAID[_status] = _answer


class Found(NamedTuple):
    """FOUND, ABSENT, TOO_SMALL (nothing was written) or why it failed, each; lengths in bytes."""

    answers: Answers
    lengths: Words

    @classmethod
    def all(cls, count: int, answer: Answer) -> Found:
        """The same of every key."""
        return cls(np.full(count, answer, np.uint8), np.zeros(count, np.uint64))
