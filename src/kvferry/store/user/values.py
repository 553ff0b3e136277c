"""What a user puts: a row for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..answers import Digests
from ..table import Ints, Words
from .buffers import measured
from .found import Key
from .keys import digests_of, same, spans

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

    @classmethod
    def of(
        cls,
        secret: bytes,
        keys: Sequence[Key],
        values: Sequence[Any],
        ttl: float | None,
        parents: Sequence[Key] | None,
    ) -> Values:
        """What a caller wants to put. Raises UsageError for what is no key or no buffer, with its
        index, and when there are not as many of everything."""
        same(len(keys), len(values))
        digests, above = digests_of(keys, secret), None
        if parents is not None:
            same(len(keys), len(parents))
            above = digests_of(parents, secret)
        ttls = None if ttl is None else spans(ttl, len(keys))
        sources, lengths = measured(values)
        return cls(digests, sources, lengths, above, ttls)

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
