"""The store's return codes, and what of ours they stand for. The cause goes to the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvferry.errors import (
    ClosedError,
    Error,
    Full,
    NoMemory,
    NotQuiet,
    PeerError,
    RightsError,
    Timeout,
    Unsupported,
    UsageError,
)
from kvferry.store import Answer, Pieces, Results

from .codes import tell

__all__ = [
    "FAILURES",
    "Code",
    "apart",
    "code_of",
    "lost",
    "moved",
    "put",
    "ranges",
    "read",
    "removed",
    "reserved",
]

R = TypeVar("R")


class Code(IntEnum):
    """Mooncake's, as far as anything here is one of them."""

    OK = 0
    INTERNAL_ERROR = -1
    NO_AVAILABLE_HANDLE = -200
    INVALID_PARAMS = -600
    ILLEGAL_CLIENT = -601
    OBJECT_NOT_FOUND = -704
    OBJECT_ALREADY_EXISTS = -705
    OBJECT_HAS_LEASE = -706
    TRANSFER_FAIL = -800
    CHECKSUM_MISMATCH = -801
    RPC_FAIL = -900
    RPC_TIMEOUT = -901
    NOT_SUPPORTED = -1012
    TASK_NOT_FOUND = -1400


# What a verb may raise that becomes a code. LookupError: an address that lies in no range.
FAILURES = (Error, OSError, LookupError, TypeError, ValueError, BufferError, MemoryError)

_ANSWERS = {
    Answer.STORED: Code.OK,
    Answer.PRESENT: Code.OK,
    Answer.RESERVED: Code.OK,
    Answer.FOUND: Code.OK,
    Answer.REMOVED: Code.OK,
    Answer.ABORTED: Code.INVALID_PARAMS,
    Answer.ABSENT: Code.OBJECT_NOT_FOUND,
    Answer.TOO_LARGE: Code.NO_AVAILABLE_HANDLE,
    Answer.FULL: Code.NO_AVAILABLE_HANDLE,
    Answer.LEASED: Code.NO_AVAILABLE_HANDLE,
    Answer.PINNED: Code.NO_AVAILABLE_HANDLE,
    Answer.FRAGMENTED: Code.NO_AVAILABLE_HANDLE,
    Answer.INDEX_FULL: Code.NO_AVAILABLE_HANDLE,
    Answer.DRAINING: Code.NO_AVAILABLE_HANDLE,
    Answer.LATE: Code.ILLEGAL_CLIENT,
    Answer.UNKNOWN: Code.ILLEGAL_CLIENT,
    Answer.TOO_SMALL: Code.INVALID_PARAMS,
    Answer.BUSY: Code.TRANSFER_FAIL,
    Answer.CHANGING: Code.TRANSFER_FAIL,
    Answer.CORRUPT: Code.CHECKSUM_MISMATCH,
    Answer.NODE_GONE: Code.RPC_FAIL,
    Answer.CANCELLED: Code.TRANSFER_FAIL,
}


def _table(codes: Mapping[Answer, Code]) -> NDArray[np.int64]:
    return np.array([codes[answer] for answer in Answer], np.int64)


_CODES = _table(_ANSWERS)
# Of a removal the same answer means another thing.
_REMOVALS = _table({**_ANSWERS, Answer.LEASED: Code.OBJECT_HAS_LEASE})
# Of a reservation the key must not be there.
_RESERVED = _table({**_ANSWERS, Answer.PRESENT: Code.OBJECT_ALREADY_EXISTS})

FOUND = int(Answer.FOUND)


def put(results: Results) -> list[int]:
    """0 or a code for each."""
    if not results.codes.any():  # all are STORED
        return [0] * len(results)
    codes: list[int] = _CODES[results.codes].tolist()
    return codes


def read(results: Results) -> list[int]:
    """Bytes read, or a code, for each."""
    lengths, found = results.lengths.view(np.int64), results.codes == FOUND
    if found.all():
        whole: list[int] = lengths.tolist()
        return whole
    codes: list[int] = np.where(found, lengths, _CODES[results.codes]).tolist()
    return codes


def removed(results: Results) -> list[int]:
    """0 or a code for each."""
    codes: list[int] = _REMOVALS[results.codes].tolist()
    return codes


def reserved(answers: Results) -> list[int]:
    """0 or a code for each."""
    codes: list[int] = _RESERVED[answers.codes].tolist()
    return codes


def moved(pieces: Pieces, results: Results, bytes_read: NDArray[np.int64]) -> list[int]:
    """Of ranges of values: bytes of each value, or a code; INVALID_PARAMS when a range is not in
    it."""
    rows = np.repeat(np.arange(len(pieces)), np.diff(pieces.starts).astype(np.int64))
    beyond = np.bincount(rows[bytes_read < 0], minlength=len(pieces)) > 0
    sizes = np.where(beyond, int(Code.INVALID_PARAMS), pieces.sizes.view(np.int64))
    codes: list[int] = np.where(results.codes == FOUND, sizes, _CODES[results.codes]).tolist()
    return codes


def ranges(pieces: Pieces, results: Results, bytes_read: NDArray[np.int64]) -> list[list[int]]:
    """The same of each range, in rows."""
    counts = np.diff(pieces.starts).astype(np.int64)
    inside = np.where(bytes_read < 0, int(Code.INVALID_PARAMS), bytes_read)
    codes = np.repeat(_CODES[results.codes], counts)
    told = np.where(np.repeat(results.codes, counts) == FOUND, inside, codes).tolist()
    bounds = pieces.starts.tolist()
    return [told[begin:end] for begin, end in pairwise(bounds)]


NO_CAUSES: Mapping[str, Code] = {}

# The first that fits. By the cause of an error first, then by its kind.
_CAUSES = {
    "too_large": Code.NO_AVAILABLE_HANDLE,
    "no_store": Code.NO_AVAILABLE_HANDLE,
    "corrupt": Code.CHECKSUM_MISMATCH,
    "changing": Code.TRANSFER_FAIL,
    "late": Code.ILLEGAL_CLIENT,
    "unknown": Code.ILLEGAL_CLIENT,
}

_KINDS = (
    (NotQuiet, Code.TRANSFER_FAIL),
    (Timeout, Code.RPC_TIMEOUT),
    (RightsError, Code.ILLEGAL_CLIENT),
    (ClosedError, Code.INVALID_PARAMS),
    (UsageError, Code.INVALID_PARAMS),
    (Full, Code.NO_AVAILABLE_HANDLE),
    (NoMemory, Code.NO_AVAILABLE_HANDLE),
    (MemoryError, Code.NO_AVAILABLE_HANDLE),
    (PeerError, Code.RPC_FAIL),
    (Unsupported, Code.NOT_SUPPORTED),
    (LookupError, Code.INVALID_PARAMS),
    (TypeError, Code.INVALID_PARAMS),
    (ValueError, Code.INVALID_PARAMS),
    (BufferError, Code.INVALID_PARAMS),
    (OSError, Code.RPC_FAIL),
)


def code_of(what: str, error: Exception, causes: Mapping[str, Code] = NO_CAUSES) -> int:
    """Log it, and the code of it. Raises TypeError for what is no key, no buffer or no number.

    causes  those that mean something else to this caller
    """
    if isinstance(error, UsageError) and error.cause == "key":
        raise TypeError(str(error)) from None
    if isinstance(error, TypeError) and not isinstance(error, Error):
        raise error
    tell(what, error)
    if isinstance(error, RightsError) and error.peer is None:
        return int(Code.INVALID_PARAMS)  # of our own memory, not of what a token permits
    cause = getattr(error, "cause", "")
    code = causes.get(cause, _CAUSES.get(cause))
    if code is None:
        code = next(code for kind, code in _KINDS if isinstance(error, kind))
    return int(code)


def lost(what: str, error: Exception, value: R) -> R:
    """Log it, and what is returned where no code can be. Raises as `code_of`."""
    code_of(what, error)
    return value


def apart(
    what: str,
    error: Exception,
    verb: Callable[..., list[int]],
    *columns: Any,
    causes: Mapping[str, Code] = NO_CAUSES,
) -> list[int]:
    """A code for each row of a batch that failed: the rows are done one by one if one of them can
    be why. Raises as `code_of`.

    columns  the first of keys, each of as many rows
    """
    code, rows = code_of(what, error, causes), len(columns[0])
    mine = isinstance(error, (UsageError, LookupError, ValueError, BufferError))
    if rows < 2 or not mine or any(len(column) != rows for column in columns):
        return [code] * rows
    return [verb(*([each] for each in row))[0] for row in zip(*columns, strict=True)]
