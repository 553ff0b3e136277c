"""What names memory, and checks what a batch says of it. A part of the contract of core."""

from collections.abc import Callable
from typing import final

from typing_extensions import Buffer, Self

from .transfers import Mover

# vm

SEAL_SEAL: int
SEAL_SHRINK: int
SEAL_GROW: int
SEAL_FUTURE_WRITE: int
MFD_NOEXEC_SEAL: int
MFD_HUGETLB: int
MFD_HUGE_2MB: int

# How vm_populate brings pages in. TOUCH serves kernels older than MADV_POPULATE_WRITE: one atomic
# write a page that changes no byte.
POPULATE_READ: int
POPULATE_WRITE: int
POPULATE_TOUCH: int

def vm_reserve(size: int, align: int) -> tuple[int, int]:
    """(errno, address) of `size` bytes that nothing is behind, at a multiple of `align`."""

def vm_reserve_at(size: int, at: int) -> tuple[int, int]:
    """(errno, `at`); EEXIST when any part of the range is in use."""

def vm_map(fd: int, offset: int, length: int, address: int, writable: bool) -> int:
    """Put a file's bytes behind a reserved range, shared, and not inherited by a fork."""

def vm_unmap(address: int, length: int) -> int:
    """Take away what is behind a reserved range; the range stays reserved."""

def vm_release(address: int, length: int) -> int:
    """Give a range back to the kernel."""

def vm_hugepage(address: int, length: int) -> int:
    """Ask for huge pages where no page is yet. Advice."""

def vm_collapse(address: int, length: int, threads: int) -> int:
    """Copy small pages together into huge ones, contents kept; blocks, without the GIL."""

def vm_populate(address: int, length: int, how: int, threads: int) -> int:
    """Bring in every page, over at most `threads` native threads; blocks, without the GIL."""

def vm_seals(fd: int) -> tuple[int, int]:
    """(errno, F_SEAL_* bits); EINVAL when the file is no memory file."""

def vm_add_seals(fd: int, seals: int) -> int:
    """Add all of them in one call, or none."""

def address_of(view: memoryview) -> int:
    """Of its first byte, while it is not released."""

class View(Buffer):
    """A fixed address range as a buffer of bytes.

    Owns nothing, and may be subclassed. It counts its live buffer exports (memoryview, NumPy array,
    ...) and tells when there are none. `owner` is kept alive as long as the view. Neither `owner`
    nor the callback may refer back to the view, since the cycle collector does not see through it.
    The range must stay mapped until the view is idle; in a forked child touching a buffer of it is
    a fault. An `opaque` range is not the processor's to touch: every export is a BufferError.
    """

    def __new__(
        cls,
        address: int,
        length: int,
        readonly: bool,
        owner: object = None,
        opaque: bool = False,
    ) -> Self: ...
    @property
    def address(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def opaque(self) -> bool: ...
    @property
    def exports(self) -> int:
        """Buffers handed out and not yet released. Slices of a memoryview count with it."""

    @property
    def retired(self) -> bool:
        """on_idle was called: further exports are refused with BufferError."""

    def on_idle(self, callback: Callable[[], object]) -> None:
        """Hand out no more buffers, and call `callback` once when the last is released.

        Calls it at once when there is none. It runs in the thread that releases; what it raises
        there is reported as unraisable. A second call replaces a callback still waiting.
        """

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

# reach

class Reach:
    """How a processor gets at memory it cannot load from or store to. Thread-safe; blocks.

    Both return 0, or the code of the library that copies.
    """

    def load(self, address: int, to: Buffer) -> int:
        """Fill the whole buffer."""

    def store(self, address: int, source: Buffer) -> int:
        """Store the whole buffer."""

# wait

def now() -> int:
    """Nanoseconds of CLOCK_MONOTONIC, the clock of every deadline below."""

# gate

ENTERED: int
CLOSED: int
FORKED: int

class Gate:
    """Shared by submitters, closed once, then drained. Thread-safe; enter and leave never block."""

    def enter(self) -> int:
        """ENTERED, CLOSED or FORKED. Only after ENTERED must leave follow."""

    def leave(self) -> None: ...
    def close(self) -> bool:
        """Refuse from now on; True for the one caller who closed it."""

    def fork(self) -> None:
        """In a forked child: refuse with FORKED and forget who was inside."""

    @property
    def inside(self) -> int: ...
    def drain(self, deadline_ns: int | None = None) -> bool:
        """After close: block until nobody is inside; False at the deadline. Takes signals."""

# descriptors

WRITE: int
READ: int

# Descriptors.verdict of a fresh array
FIT: int
EMPTY_PIECE: int
WRAPS: int
TOO_MANY_BYTES: int

@final
class Descriptors:
    """`array`: (n, 3) uint64, C-contiguous, never written again: local, remote, length in bytes.

    Measures its extremes once. When `verdict` is not FIT, `index` is the first offender and the
    object must not be used.
    """

    def __init__(self, array: Buffer) -> None: ...
    def __len__(self) -> int: ...
    @property
    def verdict(self) -> int: ...
    @property
    def index(self) -> int: ...
    @property
    def side(self) -> int:
        """Which side a verdict of resolve speaks of: LOCAL or REMOTE."""

    @property
    def way(self) -> int:
        """Which of a channel's links reaches all of its remote side."""

    @property
    def bytes(self) -> int: ...
    @property
    def late(self) -> bool:
        """Who carries it out must check it first: only for ControlStream.publish."""

    @property
    def opaque(self) -> bool:
        """Some of the local side is memory that the processor cannot load from or store to."""

    @property
    def longest(self) -> int: ...
    @property
    def local(self) -> tuple[int, int]:
        """Lowest address and the end of the highest."""

    @property
    def remote(self) -> tuple[int, int]: ...
    def holds(self, span: Span) -> bool:
        """Does this hold the span's gate?"""

    def row(self, index: int) -> tuple[int, int, int]:
        """One descriptor: local address, remote address, length."""

    def first_at(self, side: int, address: int) -> int | None:
        """Position of the first descriptor whose side begins at `address`, else holds it."""

    def cut(self, parts: int) -> list[Descriptors]:
        """At most `parts` runs of about equal bytes that together are this one; they keep it."""

    def via(self, mover: Mover | None) -> None:
        """Move them so; None: both sides lie in this address space. Before they are submitted."""

    def release(self) -> None:
        """Leave the gates that resolve entered. Idempotent; the last reference does it too."""

def fill_blocks(
    rows: Buffer, local: int, local_ids: Buffer, remote: int, remote_ids: Buffer, block: int
) -> None:
    """rows[i] = (local + local_ids[i] * block, remote + remote_ids[i] * block, block).

    rows (n, 3) uint64; ids n int64 each, all inside their regions: sums are not checked here.
    """

def first_stray(ids: Buffer, limit: int) -> int:
    """Position of the first id outside 0 .. limit-1; len(ids) when there is none."""

def first_beyond(offsets: Buffer, lengths: Buffer, limit: int) -> int:
    """Position of the first piece that is not within 0 .. limit; of how many there are when all
    are. ValueError when the two are not equally many."""

# resolve

LOCAL: int
REMOTE: int

RESOLVED: int
UNKNOWN: int
LEAVES: int
READONLY: int
STALE: int
MIXED: int
NO_MEMORY: int

# What peers may do with a span that this process serves by hand.
OFFER_NONE: int
OFFER_READ: int
OFFER_WRITE: int

@final
class Span:
    """Native half of a region: [base, base + length) as its owner sees it, at `here` for us.

    Its gate is held by every transfer in flight over it.
    """

    def __init__(
        self,
        base: int,
        length: int,
        here: int,
        writable: bool,
        offer: int = ...,
        reach: Reach | None = None,
    ) -> None:
        """`offer`: what peers may do, whom this process serves by hand. `reach`: what copies for
        the processor, where that cannot load from `here` and store to it."""

    def admit(self, tenant: int, alone: bool = False, epoch: int = 0, writes: bool = True) -> None:
        """For whom a WireServer has it: a tenant's visitors; or, `alone`, the one of this epoch and
        right, who may then do all that is offered. Before it is in a table; by default tenant 0."""

    way: int  # which of a channel's links reaches it; set before it is in a table
    @property
    def base(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def here(self) -> int: ...
    @property
    def reach(self) -> Reach | None: ...
    @property
    def inside(self) -> int:
        """Transfers that hold it now."""

    def enter(self) -> int:
        """Hold it as a transfer does: ENTERED, CLOSED or FORKED. After ENTERED leave follows."""

    def leave(self) -> None: ...
    def close(self) -> bool:
        """Refuse new transfers; True for the one caller who closed it."""

    def drain(self, deadline_ns: int | None = None) -> bool:
        """After close: block until no transfer holds it; False at the deadline."""

@final
class SpanTable:
    """Spans that do not overlap, sorted. Changed under its owner's lock; read under the GIL, and by
    the threads of a WireServer under a lock of its own."""

    def __len__(self) -> int: ...
    def overlapping(self, base: int, length: int) -> list[Span]: ...
    def add(self, span: Span) -> None: ...
    def discard(self, span: Span) -> None: ...

def resolve(
    write: bool,
    d: Descriptors,
    local: Span | None,
    local_table: SpanTable | None,
    remote: Span | None,
    remote_table: SpanTable,
    late: int = 0,
) -> Descriptors:
    """`d` with addresses valid here, holding the gate of every span it uses until release.

    A given span must live in its table and cover its side's extremes: one comparison for the whole
    batch. None: every descriptor is looked up. local_table None: the caller answers for the local
    side. When the result's `verdict` is not RESOLVED it holds nothing and must not be used.

    Bit w of `late`: on way w a side without a span is not looked up here, unless one span covers
    it, or the local table holds memory that the processor cannot touch. The result holds all spans
    between its extremes, and is checked before its first byte moves.
    """
