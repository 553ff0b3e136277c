"""What a user puts: a row for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ... import _core
from ...errors import UsageError
from ..answers import Digests
from ..table import Ints, Words
from .buffers import measured
from .found import Key
from .keys import digests_of, same, spans
from .pieces import Buffers, Pieces, in_pieces

if TYPE_CHECKING:
    from .home import Home

__all__ = ["Values"]


class Values(NamedTuple):
    """sources  contiguous buffers, or a row of pieces each
    lengths  their bytes
    parents  digests of keys without which these are of no use; None: there are none
    ttls     nanoseconds that they live, 0: for ever; None: all do
    attrs    words that stay with them; None: all 0
    """

    digests: Digests
    sources: Buffers
    lengths: Words
    parents: Digests | None = None
    ttls: Ints | None = None
    attrs: Words | None = None

    @classmethod
    def of(
        cls,
        secret: bytes,
        keys: Sequence[Key],
        values: Buffers,
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
        sources, lengths = _measured(values)
        return cls(digests, sources, lengths, above, ttls)

    @classmethod
    def unwritten(
        cls, secret: bytes, keys: Sequence[Key], lengths: Words, ttl: float | None
    ) -> Values:
        """Of which the bytes come later. Raises UsageError for what is no key or no time."""
        ttls = None if ttl is None else spans(ttl, len(keys))
        return cls(digests_of(keys, secret), (), lengths, None, ttls)

    def wanted(self, replicas: int, home: Home) -> Values:
        """The same, of which so many nodes should have each. Raises UsageError for a number that is
        none, or where no directory is known."""
        if replicas == 1:
            return self
        if not 1 <= replicas <= _core.PLACES:
            raise UsageError(f"{replicas} replicas: from 1 to {_core.PLACES}", cause="replicas")
        if not home.joined.directory:
            raise UsageError(
                "replicas are placed by a directory, and none is known", cause="replicas"
            )
        return self._replace(attrs=np.full(len(self.lengths), replicas, np.uint64))

    def some(self, which: Ints) -> Values:
        if len(which) == len(self.lengths):
            return self
        return Values(
            self.digests[which],
            _some(self.sources, which),
            self.lengths[which],
            None if self.parents is None else self.parents[which],
            None if self.ttls is None else self.ttls[which],
            None if self.attrs is None else self.attrs[which],
        )


def _some(sources: Buffers, which: Ints) -> Buffers:
    if isinstance(sources, Pieces):
        return sources.some(which)
    if not len(sources):
        return sources
    return [sources[at] for at in which.tolist()]


def _measured(values: Buffers) -> tuple[Buffers, Words]:
    """As `measured`, and of values in pieces their rows."""
    if isinstance(values, Pieces):
        return values, values.sizes
    try:
        return measured(values)
    except UsageError:
        if not in_pieces(values):
            raise
    pieces = Pieces.of(values)
    return pieces, pieces.sizes
