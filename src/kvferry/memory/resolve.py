"""From a batch to addresses valid here, or to an error: the one place that checks and relocates."""

from __future__ import annotations

from .. import _core
from ..batch import Batch
from ..errors import ClosedError, Error, NoMemory, RightsError, UsageError

__all__ = ["check_buffer", "late_refusal", "nearest", "refusal", "resolve", "withdrawn"]


def resolve(
    op: int, batch: Batch, local: _core.SpanTable, remote: _core.SpanTable, peer: str
) -> _core.Descriptors:
    """Descriptors of `batch` valid in this process. They hold every region used until `release`.

    Raises, before anything moves, UsageError for a range that no region holds or that leaves its
    region, RightsError where the destination may not be written, ClosedError for a region that is
    gone. `op` is _core.WRITE or _core.READ.
    """
    check_buffer(op, batch, peer)
    found = _core.resolve(
        op == _core.WRITE,
        batch.descriptors,
        batch.local,
        local if batch.local_held is None else None,
        batch.remote,
        remote,
    )
    if found.verdict:
        raise refusal(found, batch, peer)
    return found


_SIDES = {_core.LOCAL: "local", _core.REMOTE: "remote"}

# verdict -> (error, cause, what is wrong)
_VERDICTS: dict[int, tuple[type[Error], str, str]] = {
    _core.UNKNOWN: (UsageError, "not_registered", "no {side} region holds this address"),
    _core.LEAVES: (UsageError, "out_of_bounds", "a descriptor leaves its {side} region"),
    _core.READONLY: (RightsError, "read_only", "the {side} region may not be written"),
    _core.STALE: (
        ClosedError,
        "stale_region",
        "the {side} region is gone: closed, revoked or of another epoch or channel",
    ),
    _core.MIXED: (UsageError, "mixed_paths", "its regions are reached over two paths"),
    _core.NO_MEMORY: (NoMemory, "no_memory", "no memory to carry the batch out"),
}


def check_buffer(op: int, batch: Batch, peer: str) -> None:
    """Raises RightsError when a read would write a caller's buffer that is read-only."""
    held = batch.local_held
    if held is not None and held.readonly and op == _core.READ:
        raise RightsError("the local buffer is read-only", cause="read_only", peer=peer)


def refusal(found: _core.Descriptors, batch: Batch, peer: str) -> Error:
    """What to raise for a batch that _core.resolve refused."""
    kind, cause, text = _VERDICTS[found.verdict]
    given = batch.local if found.side == _core.LOCAL else batch.remote
    one_descriptor = found.verdict in (_core.UNKNOWN, _core.LEAVES, _core.MIXED) or (
        found.verdict == _core.READONLY and given is None
    )
    return kind(
        text.format(side=_SIDES[found.side]),
        cause=cause,
        peer=peer,
        index=found.index if one_descriptor else None,
        range=_range(found, batch) if one_descriptor else None,
    )


def late_refusal(done: _core.Done, batch: Batch, peer: str) -> Error:
    """What to raise for a batch that was refused after it was submitted: by the peer, or by who
    unfolded it."""
    verdict, side, address = done.refused
    kind, cause, text = _VERDICTS[verdict]
    index = batch.descriptors.first_at(side, address)
    return kind(
        text.format(side=_SIDES[side]),
        cause=cause,
        peer=peer,
        index=index,
        range=None if index is None else (address, batch.descriptors.row(index)[2]),
        bytes_moved=None if done.begun else 0,
    )


def withdrawn(error: Error) -> ClosedError:
    """For a region that was known when the batch was submitted, what to raise for `error`."""
    return ClosedError(
        "the remote region is gone: its owner took it away meanwhile",
        cause="stale_region",
        peer=error.peer,
        index=error.index,
        range=error.range,
        bytes_moved=error.bytes_moved,
    )


def nearest(spans: _core.SpanTable, address: int) -> str:
    """For a message: which range of a table lies closest to an address that none holds."""
    every = spans.overlapping(0, (1 << 64) - 1)
    if not every:
        return "there is none"

    def gap(span: _core.Span) -> int:
        return max(span.base - address, address - (span.base + span.length - 1))

    closest = min(every, key=gap)
    return f"the nearest is {closest.base:#x}+{closest.length:#x}"


def _range(found: _core.Descriptors, batch: Batch) -> tuple[int, int]:
    local, remote, length = batch.descriptors.row(found.index)
    return (local if found.side == _core.LOCAL else remote, length)
