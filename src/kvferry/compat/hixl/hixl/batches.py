"""From descriptors of a call to batches that one way of a channel carries each."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

import kvferry as kf

from .codes import PARAM_INVALID
from .failures import Refused
from .ranges import U64, Indices, Ranges, Stray
from .values import TransferOpDesc

__all__ = ["batches", "rows_of"]

LOCAL, REMOTE, LENGTH = range(3)

MOST = (1 << 64) - 1

_columns = attrgetter("local_addr", "remote_addr", "len")


def rows_of(descriptors: object) -> U64:
    """A row (local address, remote address, length) for each. Raises TypeError for others."""
    if isinstance(descriptors, (str, bytes)) or not isinstance(descriptors, Sequence):
        raise TypeError(f"op_descs is a list, not {type(descriptors).__name__}")
    for kind in set(map(type, descriptors)):
        if not issubclass(kind, TransferOpDesc):
            raise TypeError(f"op_descs holds TransferOpDesc, not {kind.__name__}")
    return np.array(list(map(_columns, descriptors)), np.uint64).reshape(-1, 3)


def batches(rows: U64, ours: Ranges, channel: kf.Channel, timeout: float) -> list[kf.Batch]:
    """What moves `rows`: usually one batch; one more when the peer's memory is reached two ways.

    Descriptors that span adjacent ranges are cut. Asks the peer once when it may have registered
    memory that this channel has not heard of, and waits so many seconds for the answer. Raises
    Refused, and Timeout when none comes.
    """
    _check_shapes(rows)
    try:
        rows, _ = _cut(rows, LOCAL, ours)
    except Stray as stray:
        raise _unknown(rows, stray.index, LOCAL, "is not registered here") from None
    try:
        rows, ways = _cut_remote(rows, channel)
    except Stray:
        channel.known_regions.refresh(timeout)
        try:
            rows, ways = _cut_remote(rows, channel)
        except Stray as stray:
            raise _unknown(rows, stray.index, REMOTE, _out_of_reach(channel)) from None
    return [_batch(rows if ways is None else rows[ways == way]) for way in _each(ways)]


def _check_shapes(rows: U64) -> None:
    if not len(rows):
        raise Refused(PARAM_INVALID, "op_descs is empty")
    lengths = rows[:, LENGTH]
    for side in (LOCAL, REMOTE):
        misfit = (lengths == 0) | (rows[:, side] + lengths - np.uint64(1) < rows[:, side])
        if misfit.any():
            index = int(misfit.argmax())
            raise _unknown(rows, index, side, "is empty or wraps around the address space")


def _cut_remote(rows: U64, channel: kf.Channel) -> tuple[U64, Indices | None]:
    """Rows that lie in one of the peer's regions each; by which way, where there are several."""
    low = int(rows[:, REMOTE].min())
    high = int((rows[:, REMOTE] + rows[:, LENGTH] - np.uint64(1)).max())
    spans = channel.known_regions.spans.overlapping(low, min(high - low + 1, MOST))
    if len(spans) == 1 and spans[0].base <= low and high < spans[0].base + spans[0].length:
        return rows, None
    spans.sort(key=attrgetter("base"))
    ranges = Ranges((span.base, span.length) for span in spans)
    rows, where = _cut(rows, REMOTE, ranges)
    ways = np.array([span.way for span in spans], np.intp)
    if (ways == ways[0]).all():
        return rows, None
    return rows, ways[ranges.holding(rows[:, REMOTE]) if where is None else where]


def _cut(rows: U64, side: int, ranges: Ranges) -> tuple[U64, Indices | None]:
    """Rows in pieces that lie in one range of this side each, and which; None: none was cut."""
    cut = ranges.cut(rows[:, side], rows[:, LENGTH])
    if cut is None:
        return rows, None
    pieces = rows[cut.source]
    pieces[:, LOCAL] += cut.skip
    pieces[:, REMOTE] += cut.skip
    pieces[:, LENGTH] = cut.length
    return pieces, cut.range


def _out_of_reach(channel: kf.Channel) -> str:
    text = f"is in no memory of {channel.peer} that can be reached"
    if channel.foreign_path is None:
        text += "; under FabricMem that is memory which malloc_mem gave there, and no other"
    return text


def _each(ways: Indices | None) -> list[int]:
    return [0] if ways is None else np.unique(ways).tolist()


def _batch(rows: U64) -> kf.Batch:
    return kf.Batch.absolute(rows[:, LOCAL], rows[:, REMOTE], rows[:, LENGTH])


def _unknown(rows: U64, index: int, side: int, why: str) -> Refused:
    name = "local_addr" if side == LOCAL else "remote_addr"
    address, length = int(rows[index, side]), int(rows[index, LENGTH])
    return Refused(
        PARAM_INVALID, f"descriptor {index}: {name} {address:#x} with {length} bytes {why}"
    )
