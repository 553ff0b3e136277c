"""How rows and values lie in a run of a segment. Pure.

A run begins at a multiple of 4096 and is a multiple of 4096 long; values begin at multiples of 64:

    | head 64 | row 96 | row 96 | ... | value | value | ... | zeros |

    head   magic u64 | birth u64 | at u64 | bytes u64 | sequence u64 | rows u32 |
           CRC-32C of the rows u32 | spare 12 | CRC-32C of the head u32
    row    digest u64 x 2 | sequence u64 | length u64 | at u64 | attrs u64 | expires u64 |
           CRC-32C of the value u32 | kind u32 | spare 32             little endian

`birth` and `at` of a run say in which segment it is, and where, so that none is taken for one of
elsewhere; `at` of a row says where in the run its value begins. `expires` is in ns since 1970 by
the wall clock, 0 never. `sequence` grows from row to row through all segments: of two rows of one
digest the greater one counts. A GONE row has no value and says that all earlier rows of its digest
are void: it has to outlive every one of them.

A place names a value of the log, in 63 bits: | segment 33 | byte of the segment / 64, 30 |
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..table import Ints, Words

__all__ = [
    "ALIGNED",
    "BLOCK",
    "GONE",
    "ROW",
    "SEGMENTS",
    "SEGMENT_MOST",
    "SEQUENCES",
    "VALUE",
    "Bytes",
    "Head",
    "Rows",
    "Verdict",
    "are_rows",
    "ends_of",
    "lay_out",
    "new_rows",
    "offset_of",
    "places_of",
    "read_head",
    "read_rows",
    "runs_of",
    "segment_of",
    "summed",
    "sums_up",
    "up",
    "values_of",
    "write_head",
]

Rows: TypeAlias = NDArray[Any]  # of dtype ROW
Head: TypeAlias = NDArray[Any]  # one structure, whose last field is the CRC-32C of the others
Bytes: TypeAlias = NDArray[np.uint8]

VALUE, GONE = 1, 2  # kinds of rows

ROW = np.dtype(
    [
        ("digest", "<u8", 2),
        ("sequence", "<u8"),
        ("length", "<u8"),
        ("at", "<u8"),
        ("attrs", "<u8"),
        ("expires", "<u8"),
        ("crc32c", "<u4"),
        ("kind", "<u4"),
        ("spare", "u1", 32),
    ]
)
HEAD = np.dtype(
    [
        ("magic", "<u8"),
        ("birth", "<u8"),
        ("at", "<u8"),
        ("bytes", "<u8"),
        ("sequence", "<u8"),
        ("rows", "<u4"),
        ("rows_crc32c", "<u4"),
        ("spare", "u1", 12),
        ("crc32c", "<u4"),
    ]
)
MAGIC = int.from_bytes(b"kvferRun", "little")

BLOCK = 4096  # what O_DIRECT asks of offsets, lengths and addresses
ALIGNED = 64  # values
PLACE_BITS = 30
SEGMENT_MOST = ALIGNED << PLACE_BITS  # bytes of a segment
SEGMENTS = 1 << (63 - PLACE_BITS)  # numbers are below
SEQUENCES = 1 << 63  # sequences are below


class Verdict(IntEnum):
    """What came of reading one record. Unless it is OK the destination may hold any bytes."""

    OK = _core.DISK_OK
    CORRUPT = _core.DISK_CORRUPT  # other bytes than were written
    MISSING = _core.DISK_MISSING  # its segment is not there any more
    FAILED = _core.DISK_FAILED  # the disk gave nothing


def up(size: int, to: int) -> int:
    """The next multiple."""
    return -(-size // to) * to


def new_rows(count: int, kind: int = VALUE) -> Rows:
    """Zeroed rows of one kind, to be filled in and appended."""
    rows = np.zeros(count, ROW)
    rows["kind"] = kind
    return rows


def places_of(segment: int, offsets: Words) -> Ints:
    """Of values that begin at these bytes of a segment."""
    return (offsets // np.uint64(ALIGNED)).astype(np.int64) | (segment << PLACE_BITS)


def segment_of(places: Ints) -> Ints:
    """The number of each one's segment."""
    return places >> PLACE_BITS


def offset_of(places: Ints) -> Words:
    """At which byte of its segment each begins."""
    return ((places & ((1 << PLACE_BITS) - 1)) * ALIGNED).astype(np.uint64)


def values_of(rows: Rows) -> Rows:
    """Those that have a value."""
    return rows if (rows["kind"] == VALUE).all() else rows[rows["kind"] == VALUE]


def summed(head: Head) -> Head:
    """The same, with its checksum in place."""
    head["crc32c"] = _core.crc32c(_raw(head)[:-4])
    return head


def sums_up(head: Head) -> bool:
    return int(head["crc32c"]) == _core.crc32c(_raw(head)[:-4])


def _raw(head: Head) -> Bytes:
    return head.reshape(1).view(np.uint8)


# writing


def runs_of(rows: Rows, most: int) -> Iterator[slice]:
    """Cut: a row at least, and else no more than `most` bytes a run, short of a block."""
    costs = np.cumsum(_sizes(rows) + ROW.itemsize, dtype=np.int64)
    begin, before = 0, 0
    while begin < len(rows):
        end = max(begin + 1, int(np.searchsorted(costs, before + most, "right")))
        yield slice(begin, end)
        begin, before = end, int(costs[end - 1])


def lay_out(rows: Rows) -> int:
    """Say where in one run the values of these rows go; the bytes of the run."""
    sizes = _sizes(rows)
    ends = _front(len(rows)) + np.cumsum(sizes)
    rows["at"] = np.where(rows["kind"] == VALUE, ends - sizes, 0)
    return up(int(ends[-1]), BLOCK)


def write_head(rows: Rows, birth: int, at: int, run: Bytes) -> None:
    """Into a run whose values are in place and summed up in its rows."""
    head = np.zeros((), HEAD)
    head["magic"], head["birth"], head["at"], head["bytes"] = MAGIC, birth, at, len(run)
    head["sequence"], head["rows"] = rows["sequence"][0], len(rows)
    body = rows.view(np.uint8)
    head["rows_crc32c"] = _core.crc32c(body)
    run[: HEAD.itemsize] = _raw(summed(head))
    run[HEAD.itemsize : ends_of(len(rows))] = body


def ends_of(rows: int) -> int:
    """At which byte of a run its rows end."""
    return HEAD.itemsize + rows * ROW.itemsize


def _front(rows: int) -> int:
    return up(ends_of(rows), ALIGNED)


def _sizes(rows: Rows) -> Ints:
    return -(-rows["length"].astype(np.int64) // ALIGNED) * ALIGNED


# reading what may be anything


def read_head(block: Bytes, birth: int, at: int, room: int) -> Head | None:
    """None: no run begins here that could end within `room` bytes."""
    head: Head = block[: HEAD.itemsize].view(HEAD)[0:1].reshape(())
    if int(head["magic"]) != MAGIC or not sums_up(head):
        return None
    if int(head["birth"]) != birth or int(head["at"]) != at:
        return None
    size, rows = int(head["bytes"]), int(head["rows"])
    whole = rows > 0 and size % BLOCK == 0 and ends_of(rows) <= size <= room
    return head if whole else None


def read_rows(head: Head, run: Bytes) -> Rows | None:
    """A copy of the rows of a run, of which this much is here: head and rows. None: torn."""
    count = int(head["rows"])
    body = run[HEAD.itemsize : ends_of(count)]
    if _core.crc32c(body) != int(head["rows_crc32c"]):
        return None
    rows: Rows = body.view(ROW).copy()
    fit = are_rows(rows, _front(count), int(head["bytes"]))
    return rows if fit and rows["sequence"][0] == head["sequence"] else None


def are_rows(rows: Rows, begin: int, end: int) -> bool:
    """Can they be what they say: in order, their values apart and within [begin, end)?"""
    values = values_of(rows)
    gone = rows[rows["kind"] != VALUE]
    if (gone["kind"] != GONE).any() or gone["length"].any():
        return False
    if (rows["sequence"] >= SEQUENCES).any() or (
        rows["sequence"][1:] <= rows["sequence"][:-1]
    ).any():
        return False
    if (
        (values["at"] > end).any()
        or (values["length"] > end).any()
        or (values["at"] % ALIGNED).any()
    ):
        return False
    ends = np.append(np.uint64(begin), values["at"] + values["length"])
    return bool((ends[:-1] <= values["at"]).all() and ends[-1] <= end)
