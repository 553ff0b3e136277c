"""Where the pages of a pool's blocks lie in memory, in pieces.

A page is cut after so many of its outer axes: pieces that differ in these lie apart, in chunks of
one piece a block. Of the order "lkth":

    block first   0 axes   | page 0 | page 1 | ...                       one piece a block
    layer first   1        | layer 0: block 0, block 1 ... | layer 1: ...
    split         2        | layer 0, keys: block 0 ... | layer 0, values: ... | layer 1, keys: ...

The chunks lie in one buffer, one behind the other, or as many to each of several buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._core import Span
from ...batch import Batch, Buffer, buffer_of
from ...errors import UsageError
from ...store import Pieces
from ..ids import Ids, IdsLike, ids_of
from .record import DTYPES, LayoutRecord

__all__ = ["PagedMemory", "batch", "block_first", "latent", "layer_first", "split"]

Words = NDArray[np.uint64]


class PagedMemory:
    """Memory of the blocks of one pool, ours or a peer's. Frozen; thread-safe.

    record   what a page is
    blocks   how many there are
    buffers  regions, or arrays and other buffers of this process; or RemoteRegions. Kept
    outer    after how many axes pages are cut

    Raises UsageError (memory) for buffers that are too small, do not divide the chunks, are given
    twice, or are arrays of numbers of another size than the record's dtype; of bytes is right.
    """

    def __init__(
        self, record: LayoutRecord, blocks: int, buffers: Sequence[Any], outer: int = 1
    ) -> None:
        if not 0 <= outer <= 3 or not isinstance(blocks, int) or blocks < 1:
            raise _mistake(f"{blocks!r} blocks, cut after {outer!r} axes")
        self.record = record
        self.blocks = blocks
        self.outer = outer
        self.pieces_per_block = prod(_outer(record, outer))
        self.piece_bytes = record.page_bytes // self.pieces_per_block
        _check_buffers(record, buffers)
        self._held = [_Memory.of(each) for each in buffers]
        self._bases = self._chunks()

    def addresses(self, blocks: IdsLike) -> Words:
        """Of the pieces of each block, a row each, as the process sees them whose memory it is."""
        return self.distances(blocks)[:, None] + self._bases

    def distances(self, blocks: IdsLike) -> Words:
        """How far the pieces of each block are from those of block 0."""
        ids = ids_of(blocks, self.blocks).view(np.uint64)
        return ids * np.uint64(self.piece_bytes)

    def starts(self, pieces: int) -> Words:
        """Where those of block 0 begin, cut into so many: a multiple of `pieces_per_block`."""
        finer = pieces // self.pieces_per_block
        if finer == 1:
            return self._bases
        steps = np.arange(finer, dtype=np.uint64) * np.uint64(self.piece_bytes // finer)
        return (self._bases[:, None] + steps).ravel()

    def pieces(self, blocks: IdsLike) -> Pieces:
        """For a store: a row for each block, whose value is its page. Raises UsageError (memory)
        where it is not the memory of this process."""
        addresses = self.addresses(blocks)
        starts = np.arange(len(addresses) + 1, dtype=np.uint64) * np.uint64(self.pieces_per_block)
        return self.gathered(starts, addresses.ravel(), self.piece_bytes)

    def gathered(self, starts: Words, addresses: Words, lengths: Words | int) -> Pieces:
        """Rows of pieces that lie in this memory, which they keep."""
        kept = [each.exported() for each in self._held]
        sizes = np.broadcast_to(np.uint64(lengths), addresses.shape)
        readonly = any(each.readonly for each in kept)
        return Pieces(starts, addresses, sizes, kept, readonly=readonly)

    def at(self, blocks: Ids, offsets: Ids) -> Words:
        """The address of this byte of this block's page, for each."""
        piece, within = np.divmod(offsets, self.piece_bytes)
        starts = blocks.astype(np.uint64) * np.uint64(self.piece_bytes) + self._bases[piece]
        return starts + within.astype(np.uint64)

    @property
    def one(self) -> _Memory | None:
        """All of it, if it is one buffer."""
        return self._held[0] if len(self._held) == 1 else None

    def _chunks(self) -> Words:
        """Where each chunk begins."""
        count, size = self.pieces_per_block, self.piece_bytes * self.blocks
        if not self._held or count % len(self._held):
            raise _mistake(f"{count} chunks do not go into {len(self._held)} buffers")
        each = count // len(self._held)
        for index, held in enumerate(self._held):
            if held.length < each * size:
                raise _mistake(f"buffer {index} has {held.length} bytes, and needs {each * size}")
        return np.array(
            [held.base + at * size for held in self._held for at in range(each)], np.uint64
        )


class _Memory(NamedTuple):
    """One buffer: a region of ours or of a peer's, which has a span, or any other buffer."""

    base: int
    length: int
    span: Span | None
    owner: Any

    @classmethod
    def of(cls, thing: Any) -> _Memory:
        span: Span | None = getattr(thing, "span", None)
        if span is not None:
            return cls(span.base, span.length, span, thing)
        buffer = buffer_of(thing)
        return cls(buffer.address, buffer.length, None, buffer)

    @property
    def held(self) -> Buffer | None:
        """What a batch keeps."""
        return self.owner if self.span is None else None

    def exported(self) -> Buffer:
        """What keeps the bytes, also of a region that is unregistered meanwhile."""
        try:
            buffer: Buffer = self.owner if self.span is None else buffer_of(self.owner)
        except (UsageError, BufferError):
            raise _mistake("it is not of this process, or in a device") from None
        return buffer


def layer_first(record: LayoutRecord, blocks: int, buffers: Sequence[Any]) -> PagedMemory:
    """[layers][blocks, ...], the layers apart: one buffer, or one a layer."""
    if record.order[0] != "l":
        raise _mistake(f"pages of the order {record.order} do not begin with layers")
    return PagedMemory(record, blocks, buffers, 1)


def block_first(record: LayoutRecord, blocks: int, buffers: Sequence[Any]) -> PagedMemory:
    """[blocks, ...]: one buffer, a whole page a block."""
    return PagedMemory(record, blocks, buffers, 0)


def split(record: LayoutRecord, blocks: int, buffers: Sequence[Any]) -> PagedMemory:
    """Keys and values apart, of each layer: [layers, 2][blocks, ...] or [2, layers][blocks, ...];
    one buffer, one a layer, or one for each."""
    if sorted(record.order[:2]) != ["k", "l"] or record.kind != "kv":
        raise _mistake(f"no keys and values apart in {record.kind} of the order {record.order}")
    return PagedMemory(record, blocks, buffers, 2)


def latent(record: LayoutRecord, blocks: int, buffers: Sequence[Any]) -> PagedMemory:
    """[layers][blocks, tokens, latent]: one buffer, or one a layer."""
    if record.kind != "latent":
        raise _mistake(f"kind is {record.kind}")
    return layer_first(record, blocks, buffers)


def batch(
    ours: PagedMemory,
    our_blocks: IdsLike,
    theirs: PagedMemory,
    their_blocks: IdsLike,
    *,
    layers: Sequence[int] | None = None,
) -> Batch:
    """Our blocks and as many of a peer's, to be read or written: the first piece of every page,
    then the second, as they lie near each other.

    layers  only these of the shard, counted from its first; None: all

    Memory may be cut otherwise here and there. Raises UsageError (layout) with the field in which
    the records differ, and as Batch does.
    """
    _same(ours.record, theirs.record)
    count = max(ours.pieces_per_block, theirs.pieces_per_block)
    chosen: NDArray[np.bool_] | None = None
    if layers is not None:
        count, chosen = _of_layers(ours, theirs, layers)
    here, there = ours.starts(count), theirs.starts(count)
    if chosen is not None:
        here, there = here[chosen], there[chosen]
    mine, his = ours.distances(our_blocks), theirs.distances(their_blocks)
    if len(mine) != len(his):
        raise UsageError(f"{len(mine)} blocks and {len(his)}", cause="unequal_lengths")
    rows = np.empty((len(here), len(mine), 3), np.uint64)
    np.add(here[:, None], mine, out=rows[:, :, 0])
    np.add(there[:, None], his, out=rows[:, :, 1])
    rows[:, :, 2] = ours.piece_bytes * ours.pieces_per_block // count
    return _batch(ours, theirs, rows.reshape(-1, 3))


def _check_buffers(record: LayoutRecord, buffers: Sequence[Any]) -> None:
    if len({id(each) for each in buffers}) < len(buffers):
        raise _mistake("a buffer is given twice")
    for index, each in enumerate(buffers):
        dtype = getattr(each, "dtype", None)
        if getattr(dtype, "itemsize", 1) not in (1, DTYPES[record.dtype]):
            raise _mistake(f"dtype of buffer {index} is {dtype}, and of pages {record.dtype}")


def _batch(ours: PagedMemory, theirs: PagedMemory, rows: Words) -> Batch:
    local, remote = ours.one, theirs.one
    if local is None or remote is None:
        return Batch(rows)
    return Batch(rows, local.span, remote.span, local.held)


def _outer(record: LayoutRecord, axes: int) -> list[int]:
    return list(record.extents.values())[:axes]


def _of_layers(
    ours: PagedMemory, theirs: PagedMemory, layers: Sequence[int]
) -> tuple[int, NDArray[np.bool_]]:
    """Into how many pieces pages are cut then, and which are of these layers."""
    axis = ours.record.order.index("l")
    outer = _outer(ours.record, max(ours.outer, theirs.outer, axis + 1))
    return prod(outer), np.isin(np.indices(outer)[axis].ravel(), _layers(ours.record, layers))


def _layers(record: LayoutRecord, layers: Sequence[int]) -> list[int]:
    count = record.extents["l"]
    for index, layer in enumerate(layers):
        if layer not in range(count):
            raise UsageError(f"layer {layer} of {count}", cause="layers", index=index)
    return list(layers)


def _same(ours: LayoutRecord, theirs: LayoutRecord) -> None:
    if ours == theirs:
        return
    for field in ours.__dataclass_fields__:
        here, there = getattr(ours, field), getattr(theirs, field)
        if here != there:
            raise UsageError(f"{field} is {here!r} here and {there!r} there", cause="layout")


def _mistake(said: str) -> UsageError:
    return UsageError(f"memory of pages: {said}", cause="memory")
