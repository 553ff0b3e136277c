"""What a user puts: a row for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..answers import Digests
from ..table import Ints, Words

__all__ = ["Values"]


class Values(NamedTuple):
    """sources  contiguous buffers
    lengths  their bytes
    parents  digests of keys without which these are of no use; None: there are none
    ttls     nanoseconds that they live, 0: for ever; None: all do
    """

    digests: Digests
    sources: Sequence[Any]
    lengths: Words
    parents: Digests | None = None
    ttls: Ints | None = None

    def some(self, which: Ints) -> Values:
        if len(which) == len(self.lengths):
            return self
        return Values(
            self.digests[which],
            [self.sources[at] for at in which.tolist()],
            self.lengths[which],
            None if self.parents is None else self.parents[which],
            None if self.ttls is None else self.ttls[which],
        )
