"""A request block by block: those that are there are used, the others come in."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .trace import Ints

__all__ = ["Holder", "Served", "serve"]


class Holder(Protocol):
    """What keeps blocks, each named once in a call."""

    def there(self, blocks: Ints) -> NDArray[np.bool_]: ...

    def use(self, blocks: Ints) -> None:
        """These are there, and are used in this order."""

    def admit(self, blocks: Ints) -> int:
        """These are not there: some, from the first on, come in, in this order. How many; 1 at
        least."""


class Served(NamedTuple):
    """prefix  leading blocks that were there when the request came
    hits    blocks that were there when it was their turn"""

    prefix: int
    hits: int


def serve(holder: Holder, blocks: Ints, head_first: bool) -> Served:
    """Serve one request, whose blocks come head first.

    The head is what others share. So the tail's turn is first, and the head is used last; unless
    the policy is one that has to know the parent first.
    """
    there = holder.there(blocks)
    prefix = _run(there, True)
    if not head_first:
        blocks, there = blocks[::-1], there[::-1]
    return Served(prefix, _turns(holder, blocks, there))


def _turns(holder: Holder, blocks: Ints, there: NDArray[np.bool_]) -> int:
    """Runs of blocks that are there, or are not; who comes in may see others off."""
    hits = 0
    while len(blocks):
        if there[0]:
            count = _run(there, True)
            holder.use(blocks[:count])
            hits += count
            blocks, there = blocks[count:], there[count:]
        else:
            blocks = blocks[holder.admit(blocks[: _run(there, False)]) :]
            there = holder.there(blocks)
    return hits


def _run(there: NDArray[np.bool_], wanted: bool) -> int:
    """How many in a row, from the first on."""
    others = there != wanted
    return int(others.argmax()) if others.any() else len(there)
