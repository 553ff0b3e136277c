"""KV of one layout as another one has it: which bytes go where, or why it cannot be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .record import LayoutRecord

__all__ = ["Refusal", "Repack", "Runs", "compatible"]

Numbers = NDArray[np.int64]

# What no order of bytes makes good, and what a Repack does.
EQUAL = ("model", "revision", "kind", "layers", "heads", "head_dim", "dtype")


class Refusal(NamedTuple):
    """The first field that does not fit, and what it is on both sides."""

    field: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        return f"{self.field} is {self.ours!r} here and {self.theirs!r} there"


class Runs(NamedTuple):
    """Pieces that are whole on both sides, in order of our bytes; an array each.

    shard    of theirs
    block    of theirs, counted from the first token of the request
    offset   in that page
    our_block, our_offset  likewise
    length   bytes
    """

    shard: Numbers
    block: Numbers
    offset: Numbers
    our_block: Numbers
    our_offset: Numbers
    length: Numbers


class Repack(NamedTuple):
    """A plan for our shard, from all of theirs. Pure."""

    ours: LayoutRecord
    theirs: LayoutRecord

    @property
    def identical(self) -> bool:
        """Pages are the same, byte for byte."""
        return self.ours == self.theirs

    def runs(self, start: int, stop: int, *, within: int = 0) -> Runs:
        """What our pages need of theirs for the tokens from `start` to `stop` of a request.

        within  our pages lie in parts of so many bytes, over whose borders no run goes; 0: whole
        """
        axes = _axes(self.ours, start, stop)
        ours, theirs = _places(self.ours, *axes), _places(self.theirs, *axes)
        shard = self.theirs.shards_of(axes[0], axes[3])
        columns = [shard, *theirs, *ours]
        flat = [np.broadcast_to(each, ours[1].shape).ravel() for each in columns]
        order = np.lexsort((flat[4], flat[3]))
        return _merged([each[order] for each in flat], self.ours.vector_bytes, within)


def compatible(ours: LayoutRecord, theirs: LayoutRecord) -> Repack | Refusal:
    """Can KV of their layout be read as ours?

    Blocks of other sizes, another split and another order of bytes: a Repack. Anything else is a
    Refusal, which names the field.
    """
    for field in EQUAL:
        here, there = getattr(ours, field), getattr(theirs, field)
        if here != there:
            return Refusal(field, here, there)
    return Repack(ours, theirs)


def _axes(ours: LayoutRecord, start: int, stop: int) -> tuple[Numbers, ...]:
    """Layers, keys or values, tokens, heads: of our shard, each along an axis of its own."""
    ranges = (ours.layer_range, range(ours.extents["k"]), range(start, stop), ours.head_range)
    return np.ix_(*(np.array(each, np.int64) for each in ranges))


def _places(
    record: LayoutRecord, layers: Numbers, kinds: Numbers, tokens: Numbers, heads: Numbers
) -> tuple[Numbers, Numbers]:
    """(block, offset in the page) of each vector, in the shard that has it."""
    extents, strides = record.extents, record.strides()
    block, token = np.divmod(tokens, extents["t"])
    offset = (layers % extents["l"]) * strides["l"] + kinds * strides["k"]
    offset = offset + token * strides["t"] + (heads % extents["h"]) * strides["h"]
    return block, offset


def _merged(columns: list[Numbers], size: int, within: int) -> Runs:
    """Vectors that follow each other on both sides are one run."""
    shard, block, offset, our_block, our_offset = columns
    if not len(shard):
        return Runs._make([*columns, our_offset])
    new = np.ones(len(shard), np.bool_)
    new[1:] = np.diff(offset) != size
    new[1:] |= np.diff(our_offset) != size
    for column in (shard, block, our_block):
        new[1:] |= np.diff(column) != 0
    if within:
        new |= our_offset % within == 0
    first = np.flatnonzero(new)
    counts = np.diff(np.append(first, len(shard)))
    return Runs._make([*(column[first] for column in columns), counts * size])
