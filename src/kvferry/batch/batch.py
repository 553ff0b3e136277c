"""Batches and their builders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import Error, UsageError
from .buffer import Buffer, buffer_of

__all__ = ["Batch"]

Integers = int | Sequence[int] | npt.NDArray[Any]

_MISFITS = {
    _core.EMPTY_PIECE: ("a descriptor has no bytes", "zero_length"),
    _core.WRAPS: ("a descriptor wraps around the address space", "wraps"),
    _core.TOO_MANY_BYTES: ("the batch is longer than the address space", "too_large"),
}


class Registered(Protocol):
    """A region of this engine or of a peer: memory both sides agreed on."""

    @property
    def span(self) -> _core.Span: ...
    @property
    def name(self) -> str: ...


class Batch:
    """A frozen array of descriptors (local address, remote address, length in bytes).

    Build one with `blocks`, `strided`, `of` or `absolute`; use it as often as you like, from any
    thread. It keeps a caller's buffer alive; regions it only refers to.
    """

    __slots__ = ("bytes", "descriptors", "local", "local_held", "remote")

    descriptors: _core.Descriptors
    local: _core.Span | None  # the one local region, where it was given
    local_held: Buffer | None  # the caller's memory: checked here, kept alive here
    remote: _core.Span | None  # the one remote region, where it was given
    bytes: int

    def __init__(
        self,
        rows: npt.NDArray[np.uint64],
        local: _core.Span | None = None,
        remote: _core.Span | None = None,
        local_held: Buffer | None = None,
    ) -> None:
        rows.flags.writeable = False
        descriptors = _core.Descriptors(rows)
        if descriptors.verdict != _core.FIT:
            raise _misfit(descriptors, rows)
        self.descriptors = descriptors
        self.local = local
        self.remote = remote
        self.local_held = local_held
        self.bytes = descriptors.bytes

    def __len__(self) -> int:
        return len(self.descriptors)

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} descriptors, {self.bytes} bytes>"

    @classmethod
    def blocks(
        cls,
        local: Registered | Any,
        local_ids: Integers,
        remote: Registered,
        remote_ids: Integers,
        block_bytes: int,
    ) -> Batch:
        """Block `local_ids[i]` of `local` and block `remote_ids[i]` of `remote`, for every i.

        `local` is a region or any buffer of this process, `remote` a peer's region; both are seen
        as arrays of blocks of `block_bytes`. Ids are integers, one-dimensional and equally many.
        Raises UsageError with the position of the first id outside its memory.
        """
        here, there = _Side(local), _Side(remote, registered=True)
        if not isinstance(block_bytes, (int, np.integer)):
            raise UsageError(f"block_bytes is {block_bytes!r}", cause="not_integers")
        if block_bytes <= 0:
            cause = "zero_length" if block_bytes == 0 else "negative_length"
            raise UsageError(f"block_bytes is {block_bytes}", cause=cause)
        ours, theirs = _ids(local_ids), _ids(remote_ids)
        if len(ours) != len(theirs):
            raise UsageError(
                f"{len(ours)} local ids and {len(theirs)} remote ids", cause="unequal_lengths"
            )
        here.check_ids(ours, block_bytes)
        there.check_ids(theirs, block_bytes)
        rows = np.empty((len(ours), 3), np.uint64)
        _core.fill_blocks(rows, here.base, ours, there.base, theirs, block_bytes)
        return cls(rows, here.span, there.span, here.held)

    @classmethod
    def strided(
        cls,
        local: Registered | Any,
        remote: Registered,
        block_bytes: int,
        counts: int | Sequence[int],
        local_strides: int | Sequence[int],
        remote_strides: int | Sequence[int],
        *,
        local_offset: int = 0,
        remote_offset: int = 0,
    ) -> Batch:
        """A grid of blocks, such as one block of every layer: `counts` blocks a dimension, so many
        bytes of stride a dimension on each side, from an offset in bytes. Last dimension fastest.
        """
        shape = _ids(counts)
        if (shape < 0).any():
            raise UsageError(f"counts are {shape.tolist()}", cause="bad_counts")
        ours = _grid(shape, _ids(local_strides), local_offset)
        theirs = _grid(shape, _ids(remote_strides), remote_offset)
        return cls.of(local, remote, local_offset=ours, remote_offset=theirs, length=block_bytes)

    @classmethod
    def of(
        cls,
        local: Registered | Any,
        remote: Registered,
        *,
        local_offset: Integers = 0,
        remote_offset: Integers = 0,
        length: Integers | None = None,
    ) -> Batch:
        """Pieces of `length` bytes at `local_offset` of `local` and `remote_offset` of `remote`.

        Each is an integer or an array, broadcast against each other. Without a length: one piece,
        from the offset to the end of `local`.
        """
        here, there = _Side(local), _Side(remote, registered=True)
        if length is None:
            length = here.length - _integers(local_offset)
        ours, theirs, lengths = _columns(local_offset, remote_offset, length)
        here.check_offsets(ours, lengths)
        there.check_offsets(theirs, lengths)
        rows = np.empty((len(ours), 3), np.uint64)
        rows[:, 0] = ours.astype(np.uint64) + np.uint64(here.base)
        rows[:, 1] = theirs.astype(np.uint64) + np.uint64(there.base)
        rows[:, 2] = lengths
        return cls(rows, here.span, there.span, here.held)

    @classmethod
    def buffers(
        cls,
        local: Sequence[Any],
        remote: Registered,
        remote_offsets: Integers,
        lengths: Integers,
    ) -> Batch:
        """Piece i is the first `lengths[i]` bytes of `local[i]`, each a buffer of this process of
        its own, and as many at `remote_offsets[i]` of `remote`.

        Raises UsageError with the position of the first piece outside its memory, and as `of` for
        what is no buffer.
        """
        here = [buffer_of(each) for each in local]
        there = _Side(remote, registered=True)
        theirs, sizes = _columns(remote_offsets, lengths)
        if len(theirs) != len(here):
            raise UsageError(
                f"{len(here)} buffers and {len(theirs)} pieces", cause="unequal_lengths"
            )
        there.check_offsets(theirs, sizes)
        rooms = np.array([each.length for each in here], np.int64)
        rows = np.empty((len(here), 3), np.uint64)
        rows[:, 0] = [each.address for each in here]
        np.add(theirs.view(np.uint64), np.uint64(there.base), out=rows[:, 1])
        rows[:, 2] = sizes
        short = np.flatnonzero(rooms < sizes)
        if len(short):
            first = int(short[0])
            raise UsageError(
                f"{int(sizes[first])} bytes are more than this buffer of {here[first].length} has",
                cause="out_of_bounds",
                index=first,
                range=(here[first].address, int(sizes[first])),
            )
        held = Buffer(0, 0, any(each.readonly for each in here), here)
        return cls(rows, None, there.span, held)

    @classmethod
    def absolute(
        cls, local_addresses: Integers, remote_addresses: Integers, lengths: Integers
    ) -> Batch:
        """Pieces named by address on both sides, each address as its own process sees it.

        All of it must lie in registered regions when the batch is submitted; several regions may be
        mixed. Arrays of equal length, or integers.
        """
        columns = _columns(local_addresses, remote_addresses, lengths)
        return cls(np.stack(columns, axis=1).astype(np.uint64))


class _Side:
    """One side's memory while a batch is built: a registered span or a caller's buffer."""

    __slots__ = ("base", "held", "length", "name", "span")

    def __init__(self, memory: Any, registered: bool = False) -> None:
        self.span: _core.Span | None = getattr(memory, "span", None)
        self.held: Buffer | None = None
        if self.span is not None:
            self.base, self.length = self.span.base, self.span.length
            self.name = f"region {memory.name!r}"
            return
        if registered:
            kind = type(memory).__name__
            raise UsageError(f"{kind} is not a region of the peer", cause="not_registered")
        buffer = buffer_of(memory)
        self.base, self.length, self.held = buffer.address, buffer.length, buffer
        self.name = f"this {type(memory).__name__}"

    def check_ids(self, ids: npt.NDArray[np.int64], block: int) -> None:
        stray = _core.first_stray(ids, self.length // block)
        if stray < len(ids):
            raise self._outside(stray, int(ids[stray]) * block, block)

    def check_offsets(self, offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
        stray = _core.first_beyond(offsets, lengths, self.length)
        if stray < len(offsets):
            raise self._outside(stray, int(offsets[stray]), int(lengths[stray]))

    def _outside(self, index: int, offset: int, length: int) -> Error:
        return UsageError(
            f"bytes {offset} to {offset + length} are outside {self.name} of {self.length} bytes",
            cause="out_of_bounds",
            index=index,
            range=(self.base + offset, length),
        )


def _grid(
    shape: npt.NDArray[np.int64], steps: npt.NDArray[np.int64], offset: int
) -> npt.NDArray[np.int64]:
    """The offset of every point of a grid, last dimension fastest."""
    if len(steps) != len(shape):
        raise UsageError(
            f"{len(steps)} strides for {len(shape)} dimensions", cause="unequal_lengths"
        )
    # Exact: what wrapped around could come to lie inside again.
    reach = abs(offset) + sum(int(n) * abs(int(step)) for n, step in zip(shape, steps, strict=True))
    if reach >= 1 << 63:
        raise UsageError(f"the grid reaches {reach} bytes far", cause="out_of_bounds")
    points = np.array([offset])
    for n, step in zip(shape, steps, strict=True):
        points = (points[:, np.newaxis] + np.arange(n) * step).reshape(-1)
    return points


def _columns(*values: Integers) -> list[npt.NDArray[np.int64]]:
    """Integers and arrays as columns of one length."""
    arrays = [_ids(value) for value in values]
    try:
        if all(len(array) == len(arrays[0]) for array in arrays):
            return arrays
        return [np.ascontiguousarray(each) for each in np.broadcast_arrays(*arrays)]
    except ValueError:
        lengths = " and ".join(str(len(array)) for array in arrays)
        raise UsageError(f"columns of {lengths} integers", cause="unequal_lengths") from None


def _integers(values: Integers) -> npt.NDArray[np.int64]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise UsageError("expected integers, got uneven sequences", cause="not_integers") from None
    if array.dtype.kind == "f":
        array = _exact(values, array)
    if array.size and array.dtype.kind not in "iu":
        raise UsageError(f"expected integers, got {array.dtype}", cause="not_integers")
    return array.astype(np.int64, copy=False)


def _exact(values: Integers, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """NumPy makes floats of a list whose integers lie on both sides of 2**63."""
    exact = np.asarray(values, object)
    whole = all(isinstance(value, int) for value in exact.flat)
    return (exact & (1 << 64) - 1).astype(np.uint64) if whole else array


def _ids(values: Integers) -> npt.NDArray[np.int64]:
    array = np.ascontiguousarray(_integers(values))
    if array.ndim != 1:
        raise UsageError(f"ids have {array.ndim} dimensions, not one", cause="not_integers")
    return array


def _misfit(descriptors: _core.Descriptors, rows: npt.NDArray[np.uint64]) -> Error:
    message, cause = _MISFITS[descriptors.verdict]
    index = descriptors.index
    local, remote, length = (int(value) for value in rows[index])
    return UsageError(
        f"{message}: local {local:#x}, remote {remote:#x}, {length} bytes",
        cause=cause,
        index=index,
        range=(remote, length),
    )
