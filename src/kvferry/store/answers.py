"""What a verb of the catalog says about each key, and why a key is not there."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answer", "Answers", "Cause", "Digests", "Kind", "Pin"]

Answers: TypeAlias = NDArray[np.uint8]
Digests: TypeAlias = NDArray[np.uint64]  # (n, 2)


class Answer(IntEnum):
    """One per key; those from TOO_LARGE on refuse, and nothing was changed for the key."""

    STORED = 0  # it is there now, whole
    PRESENT = 1  # it was there already, and stays as it is
    RESERVED = 2  # there is an extent to write into
    ABORTED = 3  # the extent is free again
    FOUND = 4
    REMOVED = 5
    ABSENT = 6
    TOO_LARGE = 7  # more than the pool or, at commit, than the extent
    FULL = 8  # all bytes belong to writers or to readers of what has left, or this user has enough
    LEASED = 9  # by the bytes that could leave but for a lease, which will end
    PINNED = 10  # by the bytes that could leave but for a pin or their group
    FRAGMENTED = 11  # enough bytes are free, and no hole is large enough
    INDEX_FULL = 12  # no entry is free for the key, and nobody may leave for it
    LATE = 13  # the attempt is over: its extent was taken back
    UNKNOWN = 14  # no attempt of this user
    DRAINING = 15  # nothing is taken in any more
    TOO_SMALL = 16  # the destination, in which nothing was written
    BUSY = 17  # as many reads are under way, or views held, as this user may have
    CHANGING = 18  # it left and came back again and again while it was read
    CORRUPT = 19  # what the index names is not there
    NODE_GONE = 20  # nobody answered
    CANCELLED = 21

    def __bool__(self) -> bool:
        """Is it there, or done, as was asked?"""
        return self.value <= Answer.REMOVED.value

    @property
    def kind(self) -> Kind:
        """What it comes down to."""
        return _KINDS.get(self, Kind.REFUSED)

    @property
    def safe_to_retry(self) -> bool:
        """May the same be asked again, with the hope of another answer?"""
        return self in _PASSING


class Kind(Enum):
    """The four answers there are."""

    PRESENT = "present"
    ABSENT = "absent"
    REFUSED = "refused"
    FAILED = "failed"


_KINDS = {
    Answer.STORED: Kind.PRESENT,
    Answer.PRESENT: Kind.PRESENT,
    Answer.RESERVED: Kind.PRESENT,
    Answer.FOUND: Kind.PRESENT,
    Answer.ABORTED: Kind.ABSENT,
    Answer.REMOVED: Kind.ABSENT,
    Answer.ABSENT: Kind.ABSENT,
    Answer.CHANGING: Kind.FAILED,
    Answer.CORRUPT: Kind.FAILED,
    Answer.NODE_GONE: Kind.FAILED,
    Answer.CANCELLED: Kind.FAILED,
}

_PASSING = {
    Answer.FULL,
    Answer.LEASED,
    Answer.FRAGMENTED,
    Answer.INDEX_FULL,
    Answer.LATE,
    Answer.BUSY,
    Answer.CHANGING,
    Answer.NODE_GONE,
    Answer.CANCELLED,
}


class Cause(IntEnum):
    """Why a key is not there, as far as it is remembered; NEVER also of what was forgotten."""

    PRESENT = 0
    NEVER = 1
    EVICTED = 2
    EXPIRED = 3
    REMOVED = 4
    REFUSED = 5
    DRAINED = 6
    NODE_GONE = 7
    CORRUPT = 8
    OTHER_TENANT = 9
    UNREADABLE = 10  # the disk gave nothing when it was to be read


class Pin(IntEnum):
    """How firmly an object stays: a soft one leaves when nothing else could."""

    NONE = 0
    SOFT = 1
    HARD = 2
