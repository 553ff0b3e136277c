"""Many buffers of a caller to and from a node's pool on another host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ...batch import Batch, Buffer
from ...engine import Channel
from ...errors import Full, PeerError
from ...memory import RemoteRegion
from ..table import Ints, Words
from .found import Watch
from .pieces import Pieces
from .stock import Extents

__all__ = ["batch", "batch_of", "read", "write", "write_pieces"]

SLOWEST = 16 << 20  # bytes a second of a network that is in order


def read(channel: Channel, whole: Batch, watch: Watch, timeout: float) -> None:
    """Raises what reads raise, and is quiet then; what the local side holds is unspecified. `watch`
    is shown the transfer."""
    if watch is None:
        channel.read(whole, timeout)
        return
    try:
        transfer = channel.read_async(whole)
    except Full:  # of slots: wait for one
        channel.read(whole, timeout)
        return
    watch(transfer)
    transfer.wait(timeout)


def write(
    channel: Channel,
    pool: RemoteRegion,
    offsets: Ints,
    lengths: Ints,
    sources: Sequence[Any],
    timeout: float | None,
) -> None:
    """Each buffer to its offset of the pool. The timeout is that of a few bytes; many have more
    time."""
    _write(channel, batch(pool, offsets, lengths, sources), timeout)


def write_pieces(
    channel: Channel,
    pool: RemoteRegion,
    extents: Extents,
    pieces: Pieces,
    offsets: Words,
    timeout: float | None,
) -> None:
    """Each piece of row i to its offset in extent i."""
    places = pieces.spread(extents.offsets) + offsets
    _write(channel, batch_of(pool, places, pieces, pieces.lengths), timeout)


def _write(channel: Channel, whole: Batch | None, timeout: float | None) -> None:
    if whole is not None:
        channel.write(whole, None if timeout is None else timeout + whole.bytes / SLOWEST)


def batch(pool: RemoteRegion, offsets: Ints, lengths: Ints, buffers: Sequence[Any]) -> Batch | None:
    """The first bytes of each buffer, and those from its offset of the pool on. None: they are no
    bytes at all."""
    if lengths.all():
        return Batch.buffers(buffers, pool, offsets, lengths) if len(lengths) else None
    some = np.flatnonzero(lengths)
    if not len(some):
        return None
    held = [buffers[at] for at in some.tolist()]
    return Batch.buffers(held, pool, offsets[some], lengths[some])


def batch_of(pool: RemoteRegion, offsets: Words, pieces: Pieces, lengths: Words) -> Batch | None:
    """The same of pieces."""
    some = np.flatnonzero(lengths)
    if not len(some):
        return None
    places, sizes = offsets[some].view(np.int64), lengths[some].view(np.int64)
    if _core.first_beyond(places, sizes, pool.length) < len(some):
        raise PeerError("an extent lies outside the pool", cause="protocol")
    rows = np.empty((len(some), 3), np.uint64)
    rows[:, 0] = pieces.addresses[some]
    np.add(places.view(np.uint64), np.uint64(pool.span.base), out=rows[:, 1])
    rows[:, 2] = sizes
    return Batch(rows, None, pool.span, Buffer(0, 0, pieces.readonly, pieces))
