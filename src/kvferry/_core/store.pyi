"""The store's table in shared memory, and reading by it. A part of the contract of core."""

from collections.abc import Iterable, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

# hash

def digest(keys: Iterable[str | bytes], secret: bytes) -> NDArray[np.uint64]:
    """SipHash-2-4-128 of each key under a secret of 16 bytes: rows of two, low half first.

    Text is hashed as its UTF-8. TypeError for other keys, UnicodeEncodeError for lone surrogates.
    """

# index (index.h, verbs.h)

NOWHERE: int  # in the place of a slot: not in the index,
FULL: int  # both buckets of the digest are full,
PRESENT: int  # the digest is there already

# generation, digest (2), offset, length, room, attrs u64; slot u32; marked bool
ENTRY: np.dtype[np.void]

def index_bytes(capacity: int) -> int:
    """Memory for an index of so many entries at least. Up to 0.75 full almost none is refused."""

@final
class Index:
    """The node's side of an index: five verbs, a batch each. One thread at a time.

    Begins in zeroed memory at a multiple of 64, which stays mapped and writable as long as the
    index is used. `epoch` names this run of the node. Arrays are contiguous: slots are int64, all
    else uint64, digests (n, 2).
    """

    def __init__(self, address: int, length: int, epoch: int) -> None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def count(self) -> int:
        """Entries in use, marked ones included."""

    @property
    def epoch(self) -> int: ...
    def retire(self) -> None:
        """Every reader is told FOREIGN from now on. What is being read stays where it is."""

    def find(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Slots, or NOWHERE. A marked entry is not found."""

    def rivals(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """(n, 16): the slots in which each could stand, 8 of them twice where buckets fall
        together. When an insertion is FULL, one of them has to leave first."""

    def insert(
        self,
        digests: NDArray[np.uint64],
        generations: NDArray[np.uint64],
        offsets: NDArray[np.uint64],
        lengths: NDArray[np.uint64],
        rooms: NDArray[np.uint64],
        attrs: NDArray[np.uint64],
    ) -> NDArray[np.int64]:
        """Slots, or FULL or PRESENT. ValueError before anything is inserted when a generation is
        not from 1 to 2**63 - 1. A generation that was used before is the caller's mistake."""

    def mark(self, slots: NDArray[np.int64], generations: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """No read begins from now on. False: another stay, or none, or a marked one is there."""

    def remove(
        self, slots: NDArray[np.int64], generations: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """The slots are free. False: not this stay is there, or it is not marked."""

    def read(self, slots: NDArray[np.int64]) -> NDArray[np.void]:
        """An ENTRY for each slot, marked or not; generation 0 where there is none."""

    def scan(self, start: int, count: int) -> NDArray[np.void]:
        """ENTRYs of all in slots start to start + count - 1, marked or not, in order of slots."""

# lines

TOUCHES: int  # how many touches are remembered
TOUCH: np.dtype[np.void]  # low half of the generation u32, slot u32
CLAIMED: np.dtype[np.void]  # line, generation, since, owner u64
COUNTERS: tuple[str, ...]  # names, in the order of Lines.counters

def lines_bytes(lines: int) -> int:
    """Memory for counters, touches and so many hazard lines of one user."""

@final
class Lines:
    """What one user tells the node: hazards, touches, counters. The memory is zeroed at first,
    begins at a multiple of 64, and stays mapped and writable as long as this is used.

    A user hands it to its IndexReader; the methods are the node's, one thread at a time.
    """

    def __init__(self, address: int, length: int) -> None: ...
    def __len__(self) -> int:
        """How many hazard lines there are."""

    def held(self, generations: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the generations, in ascending order, a reader holds. Counts for those whose
        entry was marked before; asked of all users' lines."""

    def claimed(self) -> NDArray[np.void]:
        """A CLAIMED for each line in use: since when (monotonic ns) and by which thread (as
        threading.get_ident names it). As the user says it: to report, not to rely on."""

    def touches(self) -> NDArray[np.void]:
        """A TOUCH for each read since the last call, in order; at most TOUCHES, the oldest are
        lost. As the user says it: slot and generation may be of no entry."""

    def counters(self) -> NDArray[np.uint64]:
        """Sums since the beginning, in the order of COUNTERS. As the user says it."""

# reader

HIT: int
ABSENT: int
TOO_SMALL: int  # nothing was written; the length is told
CHANGING: int  # it left, and was stored anew, again and again while it was looked for
NO_LINE: int  # all hazard lines are taken
FOREIGN: int  # the index is of another layout, or of another run of the node
CORRUPT: int  # the index names bytes outside the pool

@final
class IndexReader:
    """A user's side: reads objects where they lie, without asking the node. Thread-safe.

    index and pool may be mapped to read only; both, and the memory of `lines`, stay mapped as long
    as anything here is called. Not to be used in a forked child. Whatever the index holds, nothing
    outside the pool is read. The GIL is released when there is much to do. Every hit is touched.
    """

    def __init__(
        self,
        address: int,
        length: int,
        epoch: int,
        pool: int,
        pool_length: int,
        lines: Lines,
        secret: bytes,
    ) -> None: ...
    def exists(self, digests: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """HIT, ABSENT or FOREIGN each. Neither counted nor touched."""

    def get_into(
        self,
        digests: NDArray[np.uint64],
        addresses: NDArray[np.uint64],
        rooms: NDArray[np.uint64],
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """Copy object i to addresses[i], writable for rooms[i] bytes: statuses, and lengths (of a
        HIT and a TOO_SMALL, else 0). What is no HIT wrote nothing. The caller answers for the
        addresses."""

    def get(self, key: str | bytes, out: Buffer) -> tuple[int, int]:
        """The same for one key and a contiguous writable buffer: status and length."""

    def get_all(
        self, keys: Iterable[str | bytes], outs: Sequence[Buffer]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """The same for a key and a buffer each."""

    def hold(self, key: str | bytes) -> tuple[int, int, int, int, int]:
        """(status, address, length, generation, line). A HIT stays where it lies, and takes a
        hazard line, until let_go; of any other status the rest is 0."""

    def let_go(self, line: int, generation: int) -> bool:
        """End a hold. False: that line does not hold that generation."""
