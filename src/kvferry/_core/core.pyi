"""The typed contract of the native core. Functions return codes (0 or an errno); callers raise."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, final

from typing_extensions import Buffer, Self

F = TypeVar("F", bound="Flight")

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

class View(Buffer):
    """A fixed address range as a buffer of bytes.

    Owns nothing, and may be subclassed. It counts its live buffer exports (memoryview, NumPy array,
    ...) and tells when there are none. `owner` is kept alive as long as the view. Neither `owner`
    nor the callback may refer back to the view, since the cycle collector does not see through it.
    The range must stay mapped until the view is idle; in a forked child touching a buffer of it is
    a fault.
    """

    def __new__(cls, address: int, length: int, readonly: bool, owner: object = None) -> Self: ...
    @property
    def address(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
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
    def bytes(self) -> int: ...
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

    def cut(self, parts: int) -> list[Descriptors]:
        """At most `parts` runs of about equal bytes that together are this one; they keep it."""

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

# resolve

LOCAL: int
REMOTE: int

RESOLVED: int
UNKNOWN: int
LEAVES: int
READONLY: int
STALE: int
NO_MEMORY: int

@final
class Span:
    """Native half of a region: [base, base + length) as its owner sees it, at `here` for us.

    Its gate is held by every transfer in flight over it.
    """

    def __init__(self, base: int, length: int, here: int, writable: bool) -> None: ...
    @property
    def base(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def here(self) -> int: ...
    @property
    def inside(self) -> int:
        """Transfers that hold it now."""

    def close(self) -> bool:
        """Refuse new transfers; True for the one caller who closed it."""

    def drain(self, deadline_ns: int | None = None) -> bool:
        """After close: block until no transfer holds it; False at the deadline."""

@final
class SpanTable:
    """Spans that do not overlap, sorted. Changed under its owner's lock; read under the GIL."""

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
) -> Descriptors:
    """`d` with addresses valid here, holding the gate of every span it uses until release.

    A given span must live in its table and cover its side's extremes: one comparison for the whole
    batch. None: every descriptor is looked up. local_table None: the caller answers for the local
    side. When the result's `verdict` is not RESOLVED it holds nothing and must not be used.
    """

# completion

OK: int
ABORTED: int
EXPIRED: int
STREAMS_MAX: int

@final
class Done:
    """One transfer's completion line. Thread-safe. Born armed for one stream: not quiet.

    `quiet`: every stream of the transfer is through; no byte will be written any more.
    `outcome`: OK, or why some bytes were not moved; final once quiet.
    """

    def __init__(self, arena: CopyEngines) -> None: ...
    def forsake(self) -> None:
        """Submitting was interrupted: abort, and complete the words that no stream was given."""

    def spread(self, streams: int) -> None:
        """The transfer goes over words 0 .. streams-1. Before any copy of it is submitted."""

    @property
    def quiet(self) -> bool: ...
    @property
    def outcome(self) -> int: ...
    @property
    def elapsed_ns(self) -> int:
        """From begin to the latest completion."""

    def abort(self) -> None:
        """Ask copies to stop at their next chunk; does not wait."""

    @property
    def inline_copies(self) -> int:
        """How many copies the submitting thread made itself."""

    @property
    def stream_submissions(self) -> int:
        """How many runs were handed to streams."""

    def finish(self, word: int) -> None: ...
    def fail(self, outcome: int) -> None: ...
    def notify(self, eventfd: int) -> None:
        """Write to `eventfd` when quiet. Look at quiet afterwards: it may have come before."""

    def wait(self, deadline_ns: int | None = None) -> bool:
        """Block without the GIL until quiet; False at the deadline. Takes signals."""

# copy

def copy_variants() -> list[str]: ...
def nt_variant() -> str: ...
def copy(variant: str, to: int, source: int, length: int) -> None: ...
def copy_bare(to: int, source: int, length: int) -> None: ...
def copy_blocks(
    variant: str, to: int, to_ids: Buffer, source: int, source_ids: Buffer, block: int
) -> None:
    """Block source_ids[i] to block to_ids[i] for all i (int64), without the GIL; unchecked."""

# engines

@final
class CopyEngines:
    """Native copy threads, completion lines, and copies in the caller's own thread."""

    def __init__(self, threads: int) -> None: ...
    def start(self) -> int:
        """Start the threads unless they run; 0 or an errno."""

    def stop(self) -> None:
        """Carry out what was submitted, then end the threads. Blocks; a no-op in a forked child."""

    def wake(self) -> None:
        """Wake sleeping threads for the streams that are ready."""

    def hold(self, held: bool) -> None:
        """Test point: while held, an engine waits inside the chunk it has begun."""

    @property
    def held(self) -> int:
        """How many engines wait inside a chunk now."""

    @property
    def bytes(self) -> int:
        """Moved by the threads so far."""

    def copy_inline(
        self, op: int, d: Descriptors, done: Done, deadline_ns: int | None = None
    ) -> None:
        """Copy in this thread, without the GIL when it takes long, and complete `done`."""

@final
class Stream:
    """An ordered queue of copies. One thread at a time submits.

    What was enqueued must stay alive until the flag behind it is set.
    """

    def __init__(self, home: CopyEngines) -> None: ...
    def copy(self, op: int, run: Descriptors, done: Done) -> bool:
        """Enqueue a run; False when the ring is full."""

    def flag(self, done: Done, word: int, wake: bool = True) -> bool:
        """Enqueue the completion of `word` behind all copies so far, and ring the doorbell.

        Without `wake` a sleeping thread is left asleep: the caller helps, or wakes the engines.
        """

    def help(self, done: Done, deadline_ns: int | None = None) -> None:
        """The calling thread would wait for `done`: it carries out what no engine has begun of it.

        At the deadline it stops between two chunks, and the transfer has failed. Without the GIL.
        """

    @property
    def busy(self) -> bool: ...
    def settle(self, deadline_ns: int | None = None) -> bool:
        """Block until no engine touches this stream; False at the deadline."""

# pulse

@final
class Keeper:
    """A native thread by whose end the kernel marks a page, so that others see it.

    `page` is writable and stays mapped until stop. `keeps` is False where the kernel does not allow
    it. A no-op in a forked child.
    """

    def __init__(self, page: int, epoch: int) -> None: ...
    @property
    def keeps(self) -> bool: ...
    def stop(self) -> None: ...

class Mapped(Protocol):
    @property
    def address(self) -> int: ...

@final
class PeerWatch:
    """Tells whether a peer is still there.

    By the pulse page that its keeper marks, where `mapping` maps one: no system call. Else by its
    process and its connection. The descriptors stay their owner's.
    """

    lost: bool  # known to be gone; nothing else is looked at any more

    def __init__(
        self, pidfd: int | None, sock: int, mapping: Mapped | None = None, epoch: int = 0
    ) -> None: ...
    @property
    def pidfd(self) -> int: ...
    @property
    def sock(self) -> int: ...
    def gone(self) -> bool:
        """Has the process ended, or the engine or the connection been closed? Does not block."""

# flight

PENDING: int
LANDED: int
ENDED: int

@final
class Tally:
    """Sums over the transfers that landed. Thread-safe."""

    @property
    def transfers(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def descriptors(self) -> int: ...
    @property
    def inline_copies(self) -> int: ...
    @property
    def stream_submissions(self) -> int: ...
    @property
    def total_ns(self) -> int: ...
    @property
    def longest_ns(self) -> int: ...

class Flight:
    """What one transfer holds while it is under way. Thread-safe; `state` changes once.

    lent     what the submitter lent to it
    why      the reason it was aborted
    failure  how it ended, when not well
    """

    lent: Any
    why: Any
    failure: Any

    def __init__(self, channel: Any, op: int, batch: Any, d: Descriptors, done: Done) -> None: ...
    @property
    def channel(self) -> Any: ...
    @property
    def op(self) -> int: ...
    @property
    def batch(self) -> Any: ...
    @property
    def d(self) -> Descriptors: ...
    @property
    def done(self) -> Done: ...
    @property
    def state(self) -> int:
        """PENDING, LANDED or ENDED."""

    def leave(self) -> None:
        """Leave the gate that admitted it. Idempotent; the last reference does it too."""

    def land(self, watch: PeerWatch, tally: Tally) -> bool:
        """Settle it as a success if it is quiet, complete, and the peer still there after that.

        True when it is a success, by this call or an earlier one.
        """

    def take_lent(self) -> Any:
        """What was lent, for the one caller who gives it back; None for all others."""

    def end(self, failure: object) -> bool:
        """Settle it as anything but a success; False when it was settled before."""

@final
class Gateway(Gate):
    """A channel's gate, with what every submission that passes it is checked against."""

    def __init__(self, engines: CopyEngines, local: SpanTable, remote: SpanTable) -> None: ...
    def admit(self, kind: type[F], channel: Any, op: int, batch: Any) -> F | Descriptors | None:
        """Enter the gate, resolve the batch, take a line: a flight that holds all three.

        Its `leave` must follow once it is submitted. None: the gate is closed. A Descriptors: why
        the batch is refused (`verdict`); in both cases nothing is held.
        """

class Counts:
    """What was counted in one transfer. Keeps the batch's descriptors, not the memory they name."""

    def __init__(self, path: Any, flight: Flight) -> None: ...
    @property
    def path(self) -> Any: ...
    @property
    def bytes(self) -> int: ...
    @property
    def descriptors(self) -> int: ...
    @property
    def inline_copies(self) -> int: ...
    @property
    def stream_submissions(self) -> int: ...
    @property
    def elapsed_ns(self) -> int: ...
