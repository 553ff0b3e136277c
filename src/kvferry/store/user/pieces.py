"""Values whose bytes lie in pieces of memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from ..._core import Rows, collect, offsets_of
from ...errors import RightsError, UsageError
from ..table import Ints, Words
from .buffers import flat

__all__ = ["Buffers", "Numbers", "Pieces", "in_pieces", "offsets_in"]

T = TypeVar("T", bound=np.generic)

Numbers: TypeAlias = NDArray[np.integer[Any]] | Iterable[int | Iterable[int]]


class Pieces(Rows):
    """Rows of memory, each for one value: its bytes, piece after piece. Frozen; thread-safe.

    starts     row i has the pieces starts[i] to starts[i + 1]: n + 1 numbers, from 0 on
    addresses  of the first byte of each piece
    lengths    its bytes, of which there may be none
    kept       what keeps the memory, for as long as the pieces are there
    readonly   nothing may be read into it

    Arrays of integers, or lists, which are copied. Who makes pieces of addresses answers for them:
    nobody looks whether they are mapped. Raises UsageError (pieces) for columns that do not fit
    each other, and for what no address space holds.
    """

    __slots__ = ()

    def __new__(
        cls,
        starts: Numbers,
        addresses: Numbers,
        lengths: Numbers,
        kept: object = None,
        *,
        readonly: bool = False,
    ) -> Self:
        try:
            return super().__new__(cls, starts, addresses, lengths, kept, readonly=readonly)
        except (TypeError, ValueError) as error:
            raise UsageError(f"not rows of pieces: {error}", cause="pieces") from None

    @classmethod
    def of(cls, rows: Iterable[Any], *, writable: bool = False) -> Self:
        """Rows that are lists or tuples of contiguous buffers, or one buffer each. Kept until the
        pieces are gone.

        writable  they are to be read into. Raises RightsError (read_only) with the row of a buffer
                  that is read-only

        Raises UsageError with the row of what is no contiguous buffer.
        """
        owned = list(rows)
        try:
            return cls._of(owned, writable)
        except (TypeError, ValueError, BufferError):  # not as native code takes them
            return cls._of(_flat_rows(owned), writable)

    @classmethod
    def _of(cls, rows: Sequence[Any], writable: bool) -> Self:
        try:
            starts, addresses, lengths, kept, readonly = collect(rows, writable)
        except PermissionError as error:
            (row,) = error.args
            text = "a piece to read into is read-only"
            raise RightsError(text, cause="read_only", index=row) from None
        return cls(starts, addresses, lengths, kept, readonly=readonly)

    def some(self, which: Ints) -> Pieces:
        """These rows."""
        each, counts = self.places(which), np.diff(self.starts)[which]
        starts = np.concatenate((np.zeros(1, np.uint64), np.cumsum(counts, dtype=np.uint64)))
        return Pieces(
            starts, self.addresses[each], self.lengths[each], self.kept, readonly=self.readonly
        )

    def places(self, which: Ints) -> Ints:
        """Where the pieces of these rows stand in the columns."""
        begins, counts = self.starts[:-1][which], np.diff(self.starts)[which]
        before = np.cumsum(counts, dtype=np.uint64) - counts
        skipped = np.repeat(begins - before, counts.astype(np.int64))
        return (np.arange(len(skipped), dtype=np.uint64) + skipped).astype(np.int64)

    def spread(self, words: NDArray[T]) -> NDArray[T]:
        """The word of its row, for each piece."""
        return np.repeat(words, np.diff(self.starts).astype(np.int64))

    def checked(self) -> Pieces:
        """To be read into. Raises RightsError (read_only)."""
        if self.readonly:
            raise RightsError("the pieces to read into are read-only", cause="read_only")
        return self

    def __repr__(self) -> str:
        return f"<Pieces: {len(self)} rows, {len(self.lengths)} pieces>"


# One for each key: contiguous, or in pieces.
Buffers: TypeAlias = Sequence[Any] | Pieces


def in_pieces(values: Sequence[Any]) -> bool:
    """Are some of these buffers given as lists or tuples of buffers?"""
    return any(isinstance(each, (list, tuple)) for each in values)


def offsets_in(pieces: Pieces, offsets: Numbers) -> Words:
    """One for each piece, in a row of all or in those of the pieces. Raises UsageError (offsets)
    unless there are as many, each of which is one."""
    try:
        return offsets_of(pieces, offsets)
    except (TypeError, ValueError) as error:
        raise UsageError(f"not an offset for each piece: {error}", cause="offsets") from None


def _flat_rows(rows: Sequence[Any]) -> list[list[Any]]:
    out = []
    for index, row in enumerate(rows):
        try:
            out.append([flat(each) for each in (row if isinstance(row, (list, tuple)) else (row,))])
        except UsageError as error:
            error.index = index
            raise
    return out
