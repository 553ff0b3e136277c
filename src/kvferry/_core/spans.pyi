"""Memory by address, and values in pieces. A part of the contract of core."""

from collections.abc import Iterable, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer, Self

from .memory import View
from .store import IndexReader

# spans

class Stray(LookupError):
    """What lies in no range. row: which it was."""

    row: int
    def __init__(self, text: str, row: int) -> None: ...

@final
class Spans:
    """Ranges of this process that somebody registered, by address. Thread-safe.

    They may overlap, and be the same: what lies in one of them lies in a range. Numbers are ints or
    whatever may be an index; TypeError for others, ValueError for what no u64 holds.
    """

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def add(self, address: int, length: int) -> None:
        """ValueError for no bytes, or more than the address space has from there on."""

    def drop(self, address: int) -> None:
        """Of those that begin there the last that was added. LookupError when none does."""

    def window(self, address: int, length: int) -> View:
        """These bytes as a writable buffer, for as long as the caller keeps them. Stray when they
        do not lie in a range."""

    def pieces(
        self, addresses: Iterable[int | Iterable[int]], lengths: Iterable[int | Iterable[int]]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Rows of pieces, of one each where there is a number: where each row begins, and the end
        of the last; addresses; lengths. As Pieces takes them.

        A row is a list, tuple or array. Stray with the row of the first piece that lies in no
        range; ValueError when there are not as many lengths as addresses.
        """

# pieces, piecewise

BEYOND: int  # in the place of bytes: the piece does not lie in the value, and is untouched

class Rows:
    """Rows of memory, each for one value: its bytes, piece after piece. Thread-safe, frozen.

    Columns are integers, which are copied. TypeError for others; ValueError when they do not fit
    each other, and for what no address space holds. The caller answers for the addresses; `kept` is
    referred to. Below, the GIL is released when there is much to copy, and ValueError is raised
    before anything is copied.
    """

    starts: NDArray[np.uint64]  # row i has the pieces starts[i] to starts[i + 1]
    addresses: NDArray[np.uint64]
    lengths: NDArray[np.uint64]
    offsets: NDArray[np.uint64]  # in its row, of each piece
    sizes: NDArray[np.uint64]  # bytes of each row
    kept: object
    readonly: bool
    def __new__(
        cls,
        starts: object,
        addresses: object,
        lengths: object,
        kept: object = None,
        *,
        readonly: bool = False,
    ) -> Self: ...
    def __len__(self) -> int:
        """Rows."""

    def gather(
        self,
        bases: NDArray[np.uint64],
        rooms: NDArray[np.uint64],
        offsets: NDArray[np.uint64] | None = None,
    ) -> None:
        """Copy row i to address bases[i], where there is room for so many bytes: piece after piece
        or, with offsets, each piece to its own. ValueError for a piece beyond its room."""

def offsets_of(rows: Rows, offsets: object) -> NDArray[np.uint64]:
    """A copy, one for each piece, of integers in one row or in rows as of the pieces. TypeError for
    other things; ValueError unless there are as many, and none below 0."""

def collect(
    rows: Iterable[Buffer | Sequence[Buffer]], writable: bool
) -> tuple[
    NDArray[np.uint64],
    NDArray[np.uint64],
    NDArray[np.uint64],
    tuple[memoryview, ...],
    bool,
]:
    """What Rows is made of, for rows that are lists or tuples of buffers, or one buffer: starts,
    addresses, lengths, what keeps them, and whether one is read-only.

    TypeError, ValueError and BufferError for what is no contiguous buffer of bytes;
    PermissionError with the row of a buffer that is read-only where they are to be writable.
    """

def scatter_all(
    reader: IndexReader, keys: Iterable[str | bytes], rows: Rows
) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """As IndexReader.get_all: object i over the pieces of row i, which are writable."""

def pick_all(
    reader: IndexReader,
    keys: Iterable[str | bytes],
    rows: Rows,
    offsets: NDArray[np.uint64],
) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.int64]]:
    """Parts of objects: to each piece of row i the bytes of object i from its offset on. The same,
    and how many bytes each piece got, or BEYOND: it does not lie in its object, or that was not
    found."""

def unload_rows(
    answers: NDArray[np.uint8],
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    cargo: bytes,
    rows: Rows,
) -> NDArray[np.int64]:
    """As unload_into: object i from the cargo over the pieces of row i, which are writable."""

def unload_parts(
    answers: NDArray[np.uint8],
    offsets: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    cargo: bytes,
    rows: Rows,
    parts: NDArray[np.uint64],
    moved: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The same of parts of objects: to each piece the bytes from its offset in `parts` on. `moved`
    is told of what was in the cargo, as by pick_all."""

# cover

@final
class Cover:
    """Which bytes of some values were written, in any order, and more than once. Thread-safe."""

    def __init__(self, count: int) -> None: ...
    def add(self, values: NDArray[np.int64], rows: Rows, offsets: NDArray[np.uint64]) -> None:
        """Row i was written to value values[i], each piece to its offset."""

    def whole(self, values: NDArray[np.int64], sizes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Were all bytes of these values written, of which there are so many?"""
