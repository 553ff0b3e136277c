"""What tells whether a peer is there, and what a channel holds. A part of the contract of core."""

from typing import Any, Protocol, TypeVar, final

from .memory import Descriptors, Gate, SpanTable
from .transfers import CopyEngines, Done

F = TypeVar("F", bound="Flight")

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

# watch

@final
class PeerWatch:
    """Tells whether a peer is still there. Thread-safe.

    By the pulse page that its keeper marks, where `mapping` maps one: no system call. Else by its
    process and its connection. The descriptors stay their owner's, open as long as `lost` is False.
    """

    lost: bool  # known to be gone; nothing else is looked at any more

    def __init__(
        self,
        pidfd: int | None,
        sock: int | None,
        mapping: Mapped | None = None,
        epoch: int = 0,
    ) -> None: ...
    @property
    def pidfd(self) -> int: ...
    @property
    def sock(self) -> int: ...
    def gone(self) -> bool:
        """Has the process ended, or the engine or the connection been closed? Does not block."""

# beat

BEAT: bytes
HEARD: int
SILENT: int
LONG_SILENT: int
BEAT_ENDED: int

@final
class Beats:
    """A native thread, from the first `add` on, that beats every `every` ns and listens for beats.

    bell  an eventfd that is rung when there is news; closed by `drop`
    """

    def __init__(self, every: int) -> None: ...
    @property
    def bell(self) -> int: ...
    def add(self, fd: int, called: bool, suspect: int, dead: int) -> tuple[int, int]:
        """Beat over a connected socket, taken over also on failure: an errno, and its number.

        called         begin only when the peer has begun
        suspect, dead  nanoseconds of silence
        """

    def remove(self, number: int) -> None:
        """Beat there no longer, and close the socket. Nothing happens for an unknown number."""

    def news(self) -> list[tuple[int, int]]:
        """Numbers and readings (HEARD, SILENT, LONG_SILENT, BEAT_ENDED) that changed since they
        were told last; at most 64 at once."""

    def mute(self, muted: bool) -> None:
        """Say nothing for a while, as if the network swallowed it."""

    def stop(self) -> None:
        """End the thread; `add` fails from now on. Idempotent; one caller at a time."""

    def drop(self) -> None:
        """After `stop`, or in a forked child: close every socket and the bell."""

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
    def coprocessor_batches(self) -> int: ...
    @property
    def staged(self) -> int: ...
    @property
    def total_ns(self) -> int: ...
    @property
    def longest_ns(self) -> int: ...
    @property
    def moving_ns(self) -> int: ...
    @property
    def longest_moving_ns(self) -> int: ...

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

    def __init__(
        self, engines: CopyEngines, local: SpanTable, remote: SpanTable, late: int = 0
    ) -> None:
        """`late`: see resolve."""

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
    def coprocessor_batches(self) -> int: ...
    @property
    def staged_bytes(self) -> int: ...
    @property
    def served_bytes(self) -> int: ...
    @property
    def elapsed_ns(self) -> int: ...
    @property
    def moving_ns(self) -> int: ...
