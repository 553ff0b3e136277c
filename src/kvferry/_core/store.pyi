"""The store's table in shared memory, and reading by it. A part of the contract of core."""

from collections.abc import Callable, Iterable, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from .memory import View

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

TOUCHES: int  # how many touches are remembered,
MISSES: int  # and how many misses
TOUCH: np.dtype[np.void]  # low half of the generation u32, slot u32
CLAIMED: np.dtype[np.void]  # line, generation, since, owner u64
COUNTERS: tuple[str, ...]  # names, in the order of Lines.counters

def lines_bytes(lines: int) -> int:
    """Memory for counters, touches and so many hazard lines of one user."""

@final
class Lines:
    """What one user tells the node: hazards, touches, counters. The memory is zeroed at first,
    begins at a multiple of 64, and stays mapped and writable as long as this is used.

    A user hands it to its IndexReader; the methods but `leave` are the node's, one thread at a
    time.
    """

    def __init__(self, address: int, length: int) -> None: ...
    def __len__(self) -> int:
        """How many hazard lines there are."""

    def leave(self) -> int:
        """The user's: whoever begins to read finds no line from now on. How many lines are in use
        still. Thread-safe."""

    def held(self, generations: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the generations, in ascending order, a reader holds. Counts for those whose
        entry was marked before; asked of all users' lines."""

    def claimed(self) -> NDArray[np.void]:
        """A CLAIMED for each line in use: since when (monotonic ns) and by which thread (as
        threading.get_ident names it). As the user says it: to report, not to rely on."""

    def touches(self) -> NDArray[np.void]:
        """A TOUCH for each read since the last call, in order; at most TOUCHES, the oldest are
        lost. As the user says it: slot and generation may be of no entry."""

    def misses(self) -> NDArray[np.uint64]:
        """The second half of the digest of each key that was not found since the last call, in
        order; at most MISSES, the oldest are lost. As the user says it."""

    def counters(self) -> NDArray[np.uint64]:
        """Sums since the beginning, in the order of COUNTERS. As the user says it."""

# block

@final
class Block(View):
    """Bytes of an object in the pool, read-only: `with block as memory:`.

    The object stays where it is until the `with` block is left and the last buffer made of `memory`
    is released. Leaving it while there is one raises BufferError, and the object stays until that
    one is released. One that is never entered lets go when it is dropped. RuntimeError in a forked
    child, where what is mapped here is not mapped.
    """

    def __enter__(self) -> memoryview: ...
    def __exit__(self, *exception: object) -> None: ...

# reader

HIT: int
ABSENT: int
TOO_SMALL: int  # nothing was written; the length is told
CHANGING: int  # it left, and was stored anew, again and again while it was looked for
NO_LINE: int  # all hazard lines are taken
FOREIGN: int  # the index is of another layout, or of another run of the node
CORRUPT: int  # the index names bytes outside the pool
BESIDE: int  # it is not here, and lies on a disk of the node

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
        beside: tuple[int, int] | None = None,
    ) -> None:
        """`beside`: address and length of the index of what lies on a disk of the node."""

    def exists(self, digests: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """HIT, also of what lies beside, ABSENT or FOREIGN each. Neither counted nor touched."""

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

    def block(self, key: str | bytes, owner: object) -> tuple[int, Block | None]:
        """The status, and of a HIT the object where it lies. `owner` keeps everything mapped."""

    def let_go(self, line: int, generation: int) -> bool:
        """End a hold. False: that line does not hold that generation."""

# ledger (attempts.h, ledger.h)

ARRIVALS: int  # so many are remembered until they are told
NODE: int  # the user that the node itself is
ARRIVAL: np.dtype[np.void]  # generation, print u64; room i64; expires u64; slot, parent u32

@final
class Ledger:
    """Extents given out to be written, and the way of what was written into the index.

    An attempt is one write into one extent, of one user; it is over with the commit or the abort
    that takes its extent, and never used again. One thread at a time. Arrays are contiguous:
    offsets and rooms are int64, answers uint8 as `kvferry.store.Answer`, all else uint64.
    """

    def __init__(self, index: Index, entries_high: int) -> None:
        """Into an index of which so many entries may be in use. MemoryError."""

    def beside(self, other: Index) -> None:
        """What is in the other index, too, is PRESENT; only the user NODE can store it."""

    @property
    def index(self) -> Index: ...
    @property
    def reserved(self) -> int:
        """Bytes of extents that may become objects."""

    @property
    def quarantined(self) -> int:
        """Bytes of extents that may not, and wait for their writers."""

    @property
    def left(self) -> int:
        """How many more extents there may be."""

    @property
    def pending(self) -> int:
        """How much `arrivals` would tell."""

    def held(self, user: int) -> tuple[int, int]:
        """Extents that a user has, reserved or in quarantine, and their bytes."""

    def open(
        self, user: int, offsets: NDArray[np.int64], rooms: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """An attempt for each extent. OverflowError, before anything is opened, when more than are
        left; MemoryError."""

    def commit(
        self,
        user: int,
        attempts: NDArray[np.uint64],
        digests: NDArray[np.uint64],
        lengths: NDArray[np.uint64],
        attrs: NDArray[np.uint64] | None = None,
        parents: NDArray[np.uint64] | None = None,
        expires: NDArray[np.uint64] | None = None,
    ) -> NDArray[np.uint8]:
        """One after the other become objects: STORED; PRESENT: its key was there. LATE, UNKNOWN.

        TOO_LARGE (longer than its extent) and INDEX_FULL: the attempt stands. INDEX_FULL, also
        when arrivals have to be told first: the catalog may find a way. Parents that are there
        by then count. `expires` is in ns of the node's monotonic clock, 0 never. ValueError,
        before anything is stored, for columns of other lengths.
        """

    def abort(
        self, user: int, attempts: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """ABORTED, LATE or UNKNOWN each; offsets and rooms of what became free."""

    def quarantine(self, user: int) -> int:
        """None of the user's extents may become an object; their bytes."""

    def gone(self, user: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Offsets and rooms of all extents of the user, which are free now."""

    def extents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Offsets and rooms of all that is given out."""

    def arrivals(
        self,
    ) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """Since the last call: an ARRIVAL for each object stored; offsets and rooms of extents
        that became free, as their keys were present; digests of what was refused, LATE, UNKNOWN
        and TOO_LARGE, at most ARRIVALS of them."""

# ghosts

@final
class Ghosts:
    """A word for each of the last fingerprints it was told; 8 bytes each, it never grows.

    Words are above 0, which stands for nothing known. One unknown print in some 10**8 is taken for
    a known one. One thread at a time. MemoryError when there is none for `count` of them.
    """

    def __init__(self, count: int) -> None: ...
    def tell(self, prints: NDArray[np.uint64], words: NDArray[np.uint32]) -> None:
        """Remember a word for each; of a print that occurs twice the later one counts."""

    def recall(self, prints: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """The word of each, 0 where nothing is known."""

    def recent(self, prints: NDArray[np.uint64], now: int, most: int) -> NDArray[np.bool_]:
        """Where words are numbers modulo 2**32: whose is at most `most` before `now`."""

# queue

@final
class Queue:
    """Slots in a line, each at most once; every verb takes many and costs O(1) for each.

    12 bytes a slot. One thread at a time. Slots are from 0 to `slots` - 1: ValueError before
    anything moves when one is not. MemoryError when there are more than 2**30.
    """

    def __init__(self, slots: int) -> None: ...
    def push(self, slots: NDArray[np.int64]) -> None:
        """Join at the back, or move there; of a slot that occurs twice the later one counts."""

    def move(self, slots: NDArray[np.int64]) -> None:
        """Those in line move to its back."""

    def drop(self, slots: NDArray[np.int64]) -> None:
        """Leave from wherever they stand."""

    def holds(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]: ...
    def pop(self, most: int) -> NDArray[np.int64]:
        """Up to so many leave at the front; none: the line is empty."""

    def give_back(self, slots: NDArray[np.int64]) -> None:
        """The last of those that were just popped stand at the front again."""

    def first(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The one of these that stands before the others; none, if none is in line."""

    def members(self) -> NDArray[np.int64]:
        """Everybody in line, front first."""

# trees

@final
class Trees:
    """Trees of slots in the order of their use; of all leaves the oldest leaves.

    40 bytes a slot at most. One thread at a time. Slots as a Queue has them. To find victims:

        while needed > 0 and len(slots := trees.ahead(most)):
            gone, kept = trees.leave(slots, who of them stays, sizes, needed)
        trees.forget(all that were ahead, all that were kept)
    """

    def __init__(self, slots: int) -> None: ...
    def insert(self, slots: NDArray[np.int64], parents: NDArray[np.int64]) -> None:
        """Newcomers, each once. The parent of one that has none is its own slot."""

    def remove(self, slots: NDArray[np.int64]) -> None:
        """These leave; their children stay behind as roots."""

    def touch(self, slots: NDArray[np.int64]) -> None:
        """Those that are there were used, in this order."""

    def kin(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The parent of each, its own slot if there is none; and how many children it has."""

    def first(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The one of these that would leave first; none, if none of them may leave yet."""

    def members(self) -> NDArray[np.int64]:
        """All that are there, in order of slots."""

    def ahead(self, most: int) -> NDArray[np.int64]:
        """Of whom it has to be known whether they stay before more can leave: `most` of the line,
        or a leaf and its next ancestors. None: there is no leaf."""

    def leave(
        self,
        slots: NDArray[np.int64],
        stays: NDArray[np.bool_],
        sizes: NDArray[np.int64],
        needed: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Who left, oldest first: leaves of `needed` bytes, or fewer when others have to be asked
        about. And who was met and stays; those stand nowhere until they are told to `forget`.
        `sizes` are of all slots."""

    def forget(self, asked: NDArray[np.int64], kept: NDArray[np.int64]) -> None:
        """Victims are found. Who was kept goes to the back of the line."""

# desk

DESK_DONE: int
DESK_TIMED_OUT: int  # what has no answer was withdrawn: nothing happened to it
DESK_UNKNOWN: int  # what has no answer the clerk may have had; to commit it again does no harm
DESK_BUSY: int  # what has no answer found no free tray: nothing happened to it
TRAYS: int  # so many commits of up to
TRAY_RECORDS: int  # so many keys can lie on a desk at once

def desk_bytes() -> int:
    """Memory for a desk: a multiple of 64."""

@final
class Desk:
    """Through which a user commits what it wrote, without a message. Thread-safe.

    The memory is zeroed at first, begins at a multiple of 64, is mapped writable by its user and
    the node and nobody else, and stays mapped, as the bell does, as long as anything here is
    called. `bell` is the address of the node's bell, 4 zeroed bytes that all users map writable.
    Not to be used in a forked child. ValueError: it cannot be there.
    """

    def __init__(self, address: int, length: int, bell: int) -> None: ...
    def commit(
        self,
        attempts: NDArray[np.uint64],
        digests: NDArray[np.uint64],
        lengths: NDArray[np.uint64],
        attrs: NDArray[np.uint64] | None = None,
        parents: NDArray[np.uint64] | None = None,
        expires: NDArray[np.uint64] | None = None,
        deadline_ns: int | None = None,
        gone: Callable[[], bool] | None = None,
    ) -> tuple[int, NDArray[np.uint8]]:
        """An outcome, and the answers (as Ledger.commit gives them) of the first keys: of all when
        it is DESK_DONE; else the outcome tells about the rest. Columns as in Ledger.commit.

        Blocks until the clerk has answered or the deadline (monotonic ns), without the GIL. At
        times looks for signals, and asks `gone` whether nobody will answer any more: then it ends
        as at the deadline. When one of them raises, what happened is unknown."""

# clerk

@final
class Clerk:
    """Answers the desks in the node. Its lock guards the index and the ledger.

    `with clerk:` they, and what hangs on them, are the holder's alone; threads take turns, the
    holder may take it again; the GIL is released meanwhile. Users wait for it, so hold it briefly.
    All methods are thread-safe and take it themselves. Whatever lies on a desk, nothing but its own
    user is harmed.
    """

    def __init__(self, ledger: Ledger, bell: int) -> None: ...
    def __enter__(self) -> Clerk: ...
    def __exit__(self, *unused: object) -> None: ...
    @property
    def answered(self) -> int:
        """Trays so far, each of one key up to TRAY_RECORDS."""

    def seat(self, user: int, address: int, length: int) -> None:
        """Answer this desk, which stays mapped and writable until `unseat`. ValueError: it cannot
        be there, or the user has a seat."""

    def unseat(self, user: int) -> bool:
        """The desk is not looked at any more once this returns. What was owed is answered
        INDEX_FULL; what was only posted is not answered. False: the user has no seat."""

    def serve(self, deadline_ns: int | None = None) -> list[tuple[int, int]]:
        """Answer desks, without the GIL, until some are owed answers that the ledger alone cannot
        give (INDEX_FULL): then user and tray of these, at most 64, the same ones again until they
        are answered. Or until `wake`, or the deadline: then none are. One thread at a time."""

    def wake(self) -> None:
        """`serve` returns; when it is not running, the next one does at once."""

    def tell(self) -> None:
        """There is news for who waits for it."""

    def news(self, deadline_ns: int | None = None) -> bool:
        """Block, without the GIL, until `tell` was called since this was True the last time, or
        something was committed that nobody has taken from the ledger: True; or until the deadline.
        Who commits pays for it only when it waits. One thread at a time."""

    def records(
        self, user: int, tray: int
    ) -> tuple[
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint64],
    ]:
        """What is owed an answer there, as the user says it: copies of attempts, digests, lengths,
        attrs, parents and expires, to be handed to a commit in this order. Without rows where
        nothing is owed (any more)."""

    def answer(self, user: int, tray: int, answers: NDArray[np.uint8]) -> bool:
        """Answer these records. False: nothing is owed there (any more). ValueError: they are
        another number."""

    def commit(
        self,
        user: int,
        attempts: NDArray[np.uint64],
        digests: NDArray[np.uint64],
        lengths: NDArray[np.uint64],
        attrs: NDArray[np.uint64] | None = None,
        parents: NDArray[np.uint64] | None = None,
        expires: NDArray[np.uint64] | None = None,
    ) -> NDArray[np.uint8]:
        """Ledger.commit behind the lock: for a node within the user's own process."""

# fill

def lengths_of(sources: Sequence[Buffer]) -> NDArray[np.uint64]:
    """Bytes of each. TypeError when one is no buffer, BufferError when it is not contiguous or may
    hold references to objects, ValueError when its elements have no name in a buffer."""

def write_all(
    addresses: NDArray[np.uint64], rooms: NDArray[np.uint64], sources: Sequence[Buffer]
) -> NDArray[np.uint64]:
    """Copy source i to addresses[i], writable for rooms[i] bytes; their lengths in bytes.

    Thread-safe; the GIL is released when there is much to do. The caller answers for the addresses,
    and that they do not overlap the sources. Before anything is copied: TypeError when a source is
    no buffer, BufferError when it is not contiguous, ValueError when one is longer than its room.
    """

# places

PLACE_ADDED: int
PLACE_KNOWN: int  # the node had it already
PLACE_CROWDED: int  # as many others have it as are kept: the node is not remembered
PLACE_FULL: int  # no row is left
PLACE_DROPPED: int
PLACE_UNKNOWN: int  # to be dropped, and the node was not known to have it
PLACES: int  # nodes that are kept of a key
SHARDS: int

# digest (2) u64; places (4) u2, 0: nobody; wanted u64
PLACED: np.dtype[np.void]

@final
class Places:
    """Which nodes have a key: up to PLACES numbers of 16 bits each, from 1; 0 is nobody.

    limit  rows at most; memory follows what is used: 25 bytes a row, in powers of two
    seed   16 bytes, secret: what rows a digest has follows from it

    One thread at a time; the GIL is released when there is much to do. Digests are (n, 2).
    ValueError for the node 0, OverflowError above 65535. MemoryError when there is none.
    """

    def __init__(self, limit: int, seed: bytes) -> None: ...
    @property
    def rows(self) -> int:
        """Of keys that are somewhere, and of some that were: `idle` ones."""

    @property
    def idle(self) -> int: ...
    @property
    def lacking(self) -> int:
        """Keys that fewer nodes have than should."""

    @property
    def memory(self) -> int:
        """Bytes that it takes."""

    def held(self, node: int) -> int:
        """How many keys a node has."""

    def tell(
        self, node: int, digests: NDArray[np.uint64], wanted: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """In this order: the node has a key, of which so many nodes should (PLACES at most; of what
        several say the most counts), or, 0, has it no more. A PLACE code each."""

    def find(self, digests: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """(n, PLACES) numbers of nodes."""

    def forget(self, node: int, shard: int) -> int:
        """The node has nothing in one of SHARDS parts of the table; how many it had there."""

    def scan(
        self, shard: int, start: int, most: int, lacking: bool = False
    ) -> tuple[int, NDArray[np.void]]:
        """PLACED rows of one part from row `start` on, `most` of them; of keys that are somewhere,
        or of those that too few nodes have. And where to go on: there are no more where none came.
        Rows move when others are added."""
