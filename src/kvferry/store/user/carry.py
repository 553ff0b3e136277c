"""Many buffers of a caller to and from a node's pool on another host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...batch import Batch
from ...engine import Channel
from ...errors import Full
from ...memory import RemoteRegion
from ..table import Ints
from .found import Watch

__all__ = ["read", "write"]

SLOWEST = 16 << 20  # bytes a second of a network that is in order


def read(
    channel: Channel,
    pool: RemoteRegion,
    offsets: Ints,
    lengths: Ints,
    outs: Sequence[Any],
    watch: Watch,
    timeout: float,
) -> None:
    """Fill each buffer with the bytes from its offset of the pool on. Raises what reads raise, and
    is quiet then; what the buffers hold is unspecified. `watch` is shown the transfer."""
    batch = _batch(pool, offsets, lengths, outs)
    if batch is None:
        return
    if watch is None:
        channel.read(batch, timeout)
        return
    try:
        transfer = channel.read_async(batch)
    except Full:  # of slots: wait for one
        channel.read(batch, timeout)
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
    """The other way round. The timeout is that of a few bytes; many have more time."""
    batch = _batch(pool, offsets, lengths, sources)
    if batch is not None:
        more = int(lengths.sum()) / SLOWEST
        channel.write(batch, None if timeout is None else timeout + more)


def _batch(
    pool: RemoteRegion, offsets: Ints, lengths: Ints, buffers: Sequence[Any]
) -> Batch | None:
    """None: they hold no bytes at all."""
    if lengths.all():
        return Batch.buffers(buffers, pool, offsets, lengths) if len(lengths) else None
    some = np.flatnonzero(lengths)
    if not len(some):
        return None
    held = [buffers[at] for at in some.tolist()]
    return Batch.buffers(held, pool, offsets[some], lengths[some])
