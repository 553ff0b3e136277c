"""Values that are written in parts, and are there for others once they are whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ... import _core, log
from ...errors import ClosedError, Error, ForkedError, UsageError
from ..answers import Answer
from ..table import Ints, Words
from .home import Home
from .pieces import Numbers, Pieces, offsets_in
from .results import Results
from .stock import Extents
from .values import Values
from .writer import Writer

__all__ = ["Draft", "sizes_of"]

logger = log.get("kvferry.store")

Rows: TypeAlias = Iterable[int] | NDArray[np.integer[Any]]

RESERVED, ABORTED = int(Answer.RESERVED), int(Answer.ABORTED)


class Draft:
    """Places for values, of which nobody sees anything before `commit`. Thread-safe.

    As a context it drops what was not committed. Until then the places are taken from the pool, at
    most until the store is closed or its process exits. Every call raises ClosedError after that,
    and ForkedError in a child of the process; PeerError when the node is gone.

    answers  of each key: RESERVED; PRESENT, and there is nothing to be written; or why there is no
             place (FULL, TOO_LARGE, ...). Later what became of it: STORED, PRESENT, ABORTED, ...
    """

    def __init__(
        self,
        home: Home,
        writer: Writer,
        values: Values,
        new: Ints,
        check: Callable[[], None],
        told: Callable[[Ints], None],
    ) -> None:
        """Of values without sources. Blocks: places are asked for.

        new    rows of those that are not there yet
        check  raises when the store may not be used
        told   is shown the rows that were committed
        """
        self._pid = os.getpid()
        self._home = home
        self._writer = writer
        self._values = values
        self._check = check
        self._told = told
        self._quiet = threading.Condition()
        self._writing = np.zeros(len(values.lengths), np.int64)  # how many write to each value
        self._written = _core.Cover(len(values.lengths))
        self._codes = np.full(len(values.lengths), Answer.PRESENT, np.uint8)
        zeros = np.zeros(len(values.lengths), np.uint64)
        self._extents = Extents(zeros, zeros.copy(), zeros.copy())
        self._codes[new], taken = writer.take(values.lengths[new])
        for mine, got in zip(self._extents, taken, strict=True):
            mine[new] = got

    @property
    def answers(self) -> Results:
        return self._results(np.arange(len(self)))

    def __len__(self) -> int:
        """How many keys."""
        return len(self._codes)

    def write(self, rows: Rows, pieces: Pieces | Iterable[Any], offsets: Numbers) -> None:
        """Copy bytes into values: piece j of row i of `pieces` to its offset in value rows[i].

        pieces   Pieces, or rows of buffers as Pieces.of takes them; the caller's again on return
        offsets  one a piece, in one row of all or in rows as of the pieces

        In any order, and more than once: the last stands. Blocks until all is there; to a node
        elsewhere it is one transfer. Raises UsageError before anything is copied: cause rows for a
        value that has no place, was committed or dropped; out_of_bounds for a piece beyond its
        value; offsets, pieces. Raises what transfers raise, and doing it again is harmless.
        """
        parts = pieces if isinstance(pieces, Pieces) else Pieces.of(pieces)
        each, which = offsets_in(parts, offsets), self._rows(rows)
        if len(which) != len(parts):
            text = f"{len(which)} values and {len(parts)} rows of pieces"
            raise UsageError(text, cause="rows")
        self._check_bounds(which, parts, each)
        with self._while_open(which):
            self._writer.write(self._extents.some(which), parts, each)
            self._written.add(which, parts, each)

    def commit(self, rows: Rows | None = None) -> Results:
        """Let these values be there, or all that have a place still: STORED, or PRESENT: somebody
        else was first. An answer for each of `rows`, or of all keys; of those that have no place it
        is the one that they had.

        Raises UsageError (unwritten) with the row of a value of which not all bytes were written,
        and nothing is committed. Raises Timeout and PeerError: they may have been stored or not,
        and the draft does not have them any more.
        """
        asked = np.arange(len(self)) if rows is None else self._rows(rows)
        which = self._ended(np.unique(asked), self._check_written)
        if len(which):
            values = self._values.some(which)
            self._codes[which] = self._writer.commit(self._extents.some(which), values)
            self._told(which)
        return self._results(asked)

    def drop(self, rows: Rows | None = None) -> None:
        """Give up the places of these values, or of all that have one still. Nothing happens to
        others. Blocks; where the node does not answer it has them back when this user leaves."""
        asked = np.arange(len(self)) if rows is None else np.unique(self._rows(rows))
        which = self._ended(asked)
        if not len(which):
            return
        try:
            self._writer.abort(self._extents.some(which))
        except Error as error:
            logger.info("places of %d values were not given back: %s", len(which), error)

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(ClosedError, ForkedError):
            self.drop()

    # ---- steps ----

    def _rows(self, rows: Rows) -> Ints:
        try:
            which = np.asarray(rows if isinstance(rows, np.ndarray) else list(rows))
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"rows are numbers: {error}", cause="rows") from None
        if which.ndim != 1 or (len(which) and which.dtype.kind not in "iu"):
            raise UsageError("rows are a list of numbers", cause="rows")
        beyond = np.flatnonzero((which < 0) | (which >= len(self)))
        if len(beyond):
            at = int(beyond[0])
            raise UsageError(f"there is no value {which[at]} in the draft", cause="rows", index=at)
        return which.astype(np.int64)

    def _check_bounds(self, which: Ints, pieces: Pieces, offsets: Words) -> None:
        limits = pieces.spread(self._values.lengths[which])
        fits = (offsets <= limits) & (pieces.lengths <= limits - np.minimum(offsets, limits))
        beyond = np.flatnonzero(~fits)
        if len(beyond):
            at = int(beyond[0])
            raise UsageError(
                f"bytes {offsets[at]} to {int(offsets[at]) + int(pieces.lengths[at])} of a value of"
                f" {limits[at]}",
                cause="out_of_bounds",
                index=int(np.searchsorted(pieces.starts, at, "right")) - 1,
                range=(int(offsets[at]), int(pieces.lengths[at])),
            )

    def _check_written(self, which: Ints) -> None:
        whole = self._written.whole(which, self._values.lengths[which])
        if not whole.all():
            row = int(which[~whole][0])
            raise UsageError(
                f"of value {row} not all bytes were written", cause="unwritten", index=row
            )

    def _usable(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError("the draft is of the parent process", cause="forked")
        self._check()

    @contextmanager
    def _while_open(self, which: Ints) -> Iterator[None]:
        """Who gives up or commits one of these waits until nobody writes to it any more."""
        self._usable()
        with self._quiet:
            self._check_open(which)
            np.add.at(self._writing, which, 1)
        try:
            yield
        finally:
            with self._quiet:
                np.subtract.at(self._writing, which, 1)
                self._quiet.notify_all()

    def _ended(self, which: Ints, check: Callable[[Ints], None] = lambda _: None) -> Ints:
        """Those of them that had a place. Nobody else commits or drops these, and on return nobody
        writes them. `check` may raise, and nothing has happened."""
        self._usable()
        with self._quiet:
            had: Ints = which[self._codes[which] == RESERVED]
            check(had)
            self._codes[had] = ABORTED
            self._quiet.wait_for(lambda: not self._writing[had].any())
        return had

    def _check_open(self, which: Ints) -> None:
        closed = np.flatnonzero(self._codes[which] != RESERVED)
        if len(closed):
            at = int(closed[0])
            said = Answer(int(self._codes[which[at]])).name
            raise UsageError(f"value {which[at]} has no place: {said}", cause="rows", index=at)

    def _results(self, which: Ints) -> Results:
        codes = self._codes[which]
        stored = codes == Answer.STORED
        return Results(codes, np.where(stored, self._values.lengths[which], np.uint64(0)))


def sizes_of(sizes: Sequence[int] | NDArray[np.integer[Any]], count: int) -> Words:
    """Bytes of so many values. Raises UsageError (sizes)."""
    try:
        found = np.array([_size(each) for each in sizes], np.uint64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"not the size of a value: {error}", cause="sizes") from None
    if len(found) != count:
        raise UsageError(f"{count} keys and {len(found)} sizes", cause="lengths")
    return found


def _size(each: Any) -> int:
    size = index(each)
    if not 0 <= size < 1 << 62:
        raise ValueError(size)
    return size
