"""What carries transfers out, and tells that they are over. A part of the contract of core."""

from typing import final

from .memory import Descriptors, Reach, SpanTable
from .peers import PeerWatch

# completion

OK: int
ABORTED: int
EXPIRED: int
LOST: int
REFUSED: int
FAULT: int
DEVICE: int
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
    def abandoned(self) -> bool:
        """Will it never be quiet?"""

    @property
    def outcome(self) -> int: ...
    @property
    def elapsed_ns(self) -> int:
        """From begin to the latest completion."""

    @property
    def moving_ns(self) -> int:
        """From the first byte to the latest completion."""

    @property
    def staged(self) -> int:
        """Bytes that went through a pool, here or at the peer; those that did at both, twice."""

    @property
    def served(self) -> int:
        """Bytes that threads of the peer moved at their end."""

    @property
    def coprocessor_batches(self) -> int:
        """Logical batches that a coprocessor unfolded it into and that were notified."""

    @property
    def refused(self) -> tuple[int, int, int]:
        """What an outcome of REFUSED is about: a verdict and side of resolve, and an address."""

    @property
    def code(self) -> int:
        """What an outcome of DEVICE is about: the device's library said so first. 0: nothing."""

    @property
    def begun(self) -> bool:
        """May a byte have moved?"""

    @property
    def aborted(self) -> bool:
        """Was it asked to stop?"""

    def drop(self) -> None:
        """Only for one that is, or was to be, published: over at once, unless it was begun."""

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
        """Block without the GIL until quiet; False at the deadline, and when it is abandoned.

        Takes signals.
        """

# movers

class Mover:
    """How the bytes of a run move. Outlives every transfer that is submitted with it."""

@final
class MoverAt(Mover):
    """A mover that native code elsewhere made, at this address; it stays its maker's."""

    def __init__(self, address: int) -> None: ...

# acl

@final
class AclCalls:
    """The functions of ACL that native threads call, by their addresses. They stay loaded."""

    def __init__(
        self,
        *,
        memcpy: int,
        memcpy_async: int,
        query: int,
        abort: int,
        get_context: int,
        set_context: int,
    ) -> None: ...
    def give_up(self) -> None:
        """The library cannot be made to stop: what waits for that is abandoned, never quiet."""

@final
class AclMover(Mover):
    """Moves runs by copies on one stream of ACL, one a descriptor, from device to device.

    `aliases`: by which address the device reaches local memory; what is not in it is a caller's
    buffer, which the library stages. `flag`: eight bytes of pinned host memory; `one`: eight of the
    device that hold 1. Context, stream and both stay until the mover is gone. For one stream: one
    run at a time. A failed run leaves the code in its Done, and the stream is not to be used again.
    """

    def __init__(
        self,
        calls: AclCalls,
        context: int,
        stream: int,
        aliases: SpanTable,
        flag: int,
        one: int,
    ) -> None: ...
    @property
    def failed(self) -> bool:
        """Did a run end early? Then the stream is good for nothing any more."""

    @property
    def abandoned(self) -> bool:
        """Could it not be aborted? Bytes may move, and nothing it was made with may go."""

@final
class AclReach(Reach):
    """Copies between the host and what the device of `context` reaches."""

    def __init__(self, calls: AclCalls, context: int) -> None: ...

# wires

@final
class Wire(Mover):
    """The initiator's half of a wire: asks its peer over a socket to place or to serve bytes.

    Takes the descriptor over. For one stream: one run at a time. Every run may block as long as the
    peer does; an aborted one about a second at most.
    """

    def __init__(self, fd: int) -> None: ...
    @property
    def dead(self) -> bool:
        """It broke or was killed: every later run is lost."""

    def kill(self) -> None:
        """End the connection; a run under way is lost. From any thread, while no one drops it."""

    def forked(self) -> None:
        """In a forked child: close the inherited descriptor, tell nobody."""

@final
class WireServer:
    """The target's half of wires: a native thread for each, which needs nothing of the interpreter.

    Peers may do with the spans of `table` what these offer them. A gate that a wire holds while its
    peer stands still ends the wire when it is closed. Thread-safe.
    """

    def __init__(self, table: SpanTable) -> None: ...
    def serve(
        self, fd: int, owner: int, epoch: int = 0, tenant: int = 0, writes: bool = True
    ) -> int:
        """Serve a connected socket of such a visitor until it ends; 0 or an errno. Takes the
        descriptor over."""

    def dismiss(self, owner: int) -> None:
        """End this owner's wires. Blocks until none of them touches memory any more."""

    def close(self) -> None:
        """End all, take no more. A no-op in a forked child."""

    def forked(self) -> None:
        """In a forked child: close inherited descriptors, tell nobody."""

    @property
    def wires(self) -> int:
        """How many are served now."""

# pool and bounce

STAGE_BELOW: int  # bytes

@final
class BouncePool:
    """`count` buffers of `size` bytes each, brought in at once. Thread-safe.

    Lent inside movers only; who finds none free waits, for as long as its transfer may.
    Raises MemoryError.
    """

    def __init__(self, count: int, size: int) -> None: ...

@final
class Bounce(Mover):
    """Lets pieces pass through a buffer of `pool` on their way over `inner`; keeps both.

    All of them where the local side is a caller's own buffer, else those below STAGE_BELOW of runs
    that have more than one. `Done.staged` counts the bytes. A read that fails writes nothing of
    what it staged in the round that failed. As many threads at once as `inner` allows.

    `local` holds device memory of this process until it is unmapped: what lies there is staged
    whatever its length, by its reach. Without one, no descriptors that are `opaque` may come.
    """

    def __init__(self, inner: Mover, pool: BouncePool, local: SpanTable | None = None) -> None: ...

@final
class OpaqueBounce(Mover):
    """Bounce for an `inner` that needs no staging of what the processor reaches: only what lies in
    device memory of `local` is staged."""

    def __init__(self, inner: Mover, pool: BouncePool, local: SpanTable) -> None: ...

# engines

@final
class CopyEngines:
    """Native copy threads, completion lines, and copies in the caller's own thread."""

    def __init__(self, threads: int) -> None: ...
    def start(self) -> int:
        """Start the threads unless they run; 0 or an errno."""

    def grow(self, threads: int) -> int:
        """Start threads until there are so many; 0 or an errno."""

    def stop(self) -> None:
        """Carry out what was submitted, then end the threads. Blocks; a no-op in a forked child."""

    def wake(self) -> None:
        """Wake sleeping threads for the streams that are ready."""

    def hold(self, held: bool, passing: int = 0) -> None:
        """Test point: while held, an engine or who copies inline waits inside the chunk it has
        begun; `passing` chunks from now on go through. Who helps is not held."""

    @property
    def held(self) -> int:
        """How many engines wait inside a chunk now."""

    @property
    def bytes(self) -> int:
        """Moved by the threads so far."""

    @property
    def unfold_ns(self) -> int:
        """Processor time that unfolding batches took, copies not included."""

    @property
    def cpu_ns(self) -> int:
        """Processor time of all the threads, unfolding included."""

    def copy_inline(
        self, op: int, d: Descriptors, done: Done, deadline_ns: int | None = None
    ) -> None:
        """Copy in this thread, without the GIL when it takes long, and complete `done`."""

LOGICAL_MOST: int

class Stream:
    """An ordered queue of copies. One thread at a time submits.

    What was enqueued must stay alive until the flag behind it is set.
    """

    def __init__(self, home: CopyEngines, mover: Mover | None = None) -> None:
        """`mover` carries out all of its runs; None: each as its descriptors say."""

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

@final
class ControlStream(Stream):
    """Batches are published on it, from any thread; a copy engine unfolds them onto a worker.

    Busy until the worker is idle as well. A batch's descriptors and memory must stay alive until
    its line is quiet.
    """

    def __init__(self, home: CopyEngines, most: int) -> None:
        """`most` records a logical batch, 1 to LOGICAL_MOST."""

    def publish(self, op: int, d: Descriptors, done: Done) -> bool:
        """Enqueue a whole batch and its completion, and ring the doorbell; False when full."""

    @property
    def depth(self) -> int:
        """How many batches that were published may not be over."""

    @property
    def full(self) -> bool: ...
    def await_room(self, deadline_ns: int | None = None) -> None:
        """Block until the ring has room, `stir`, the deadline, or a while. Takes signals."""

    def stir(self) -> None: ...

# process

@final
class ProcessMover(Mover):
    """Copies between this process and process `pid`, by the kernel; remote addresses are its own.

    LOST: it is gone, as `watch` or the kernel says. FAULT: the kernel refuses, or memory of one
    side is not there. Either way some bytes may have moved.
    """

    def __init__(self, pid: int, watch: PeerWatch) -> None: ...

def process_read(pid: int, address: int, length: int) -> tuple[int, bytes]:
    """(errno, what lies at `address` of process `pid`). EPERM: the kernel does not let us."""

def process_dumpable() -> bool:
    """May other processes of this user look into this one, as far as its own rules go?"""

def process_admit_all() -> int:
    """Let them even where Yama restricts it. 0 or an errno: EINVAL where there is no Yama."""

def process_conceal() -> int:
    """Let none of them, for all of this process and for as long as it lives. 0 or an errno."""
