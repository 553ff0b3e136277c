"""What a runtime is: the verbs and values of memory on one kind of device."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ..errors import Unsupported
from .owners import Access, Allocation, Mapping, Reservation

if TYPE_CHECKING:
    from kvferry._core import Descriptors, Done

__all__ = [
    "CallerStream",
    "Caps",
    "ControlStream",
    "Place",
    "Runtime",
    "ShareHandle",
    "Stream",
    "StreamState",
]


class Place(Enum):
    """Which memory.

    host    the processor's
    device  the accelerator's own, which the processor cannot load from or store to
    """

    HOST = "host"
    DEVICE = "device"


class Caps(NamedTuple):
    """What a runtime can do.

    device_memory  it allocates memory that is not the host's
    cross_host     a share handle can be imported on another host
    coprocessor    a coprocessor can unfold batches
    dereference    the host may load and store through a mapping
    """

    device_memory: bool = False
    cross_host: bool = False
    coprocessor: bool = False
    dereference: bool = True


class ShareHandle(NamedTuple):
    """The capability to map an allocation in another process. Its holder owns the descriptor.

    fd      a descriptor that nobody else in this process uses: send it, then close it; None where
            bytes are the handle
    size    bytes
    page    bytes; addresses and lengths of mappings are multiples of it
    access  what its receiver may do
    kind    how it is to be imported; which kinds there are is the runtime's matter
    data    the handle's bytes; empty where a descriptor is the handle
    """

    fd: int | None
    size: int
    page: int
    access: Access
    kind: str = "memfd"
    data: bytes = b""

    @property
    def fds(self) -> list[int]:
        """The descriptors that it consists of."""
        return [] if self.fd is None else [self.fd]


class StreamState(Enum):
    """What a stream is doing."""

    IDLE = "idle"
    BUSY = "busy"


class Runtime(ABC):
    """Allocates, maps, shares and copies on one kind of device.

    What it returns is an owner with one undo, `close()`; a verb that fails has undone its own
    steps and left its arguments as they were. Verbs may be called from any thread; two calls on one
    owner are serialised by the caller. They raise UsageError for arguments that no machine could
    serve, NoMemory when this one cannot, ClosedError for an owner that was closed and ForkedError
    for one that a parent process made.
    """

    caps: Caps

    @abstractmethod
    def granularity(self, place: Place) -> Sequence[int]:
        """Page sizes in bytes that `allocate` takes, smallest first."""

    @abstractmethod
    def allocate(self, size: int, place: Place = Place.HOST, page: int = 0) -> Allocation:
        """`size` bytes of zeroed memory, rounded up to whole pages and committed before it returns.

        page 0 leaves the choice to the runtime. Blocks while the pages are brought in. What was
        obtained stands in the allocation's `grant`. Raises NoMemory, before anything is taken where
        that can be known, naming what was asked and what is available.
        """

    @abstractmethod
    def reserve(self, size: int, at: int | None = None) -> Reservation:
        """An address range of at least `size` bytes with nothing behind it.

        With `at`, exactly there, or NoMemory with the cause ``address_taken``.
        """

    @abstractmethod
    def map(self, allocation: Allocation, reservation: Reservation, access: Access) -> Mapping:
        """Put the allocation behind the head of the reservation; one mapping a reservation.

        `access` is what this process may do there. The reservation stays taken until the mapping is
        undone; the memory lives until both the allocation and all its mappings are gone, in every
        process. Raises RightsError to write what is read-only here.
        """

    @abstractmethod
    def export(
        self, allocation: Allocation, access: Access, importer: int | None = None
    ) -> ShareHandle:
        """A handle by which another process can map the allocation, to do what `access` says.

        `importer` is the process that may, where the runtime keeps a list of those: by the number
        that it told of itself. Without one nobody is added.

        The first export fixes the rights: one with other rights raises RightsError with the cause
        ``export_rights``. A runtime may be unable to map read-only exported memory writable any
        more, so its owner maps it first. The caller closes the handle's descriptor.
        """

    def narrow(self, handle: ShareHandle) -> ShareHandle:
        """The same memory, for somebody who may only read it though others write it.

        Takes the descriptor of `handle` over, also when it raises: Unsupported, where a handle
        that others write by cannot be had for reading alone.
        """
        for fd in handle.fds:
            os.close(fd)
        raise Unsupported("memory that others write cannot be shared to be read", cause="read_only")

    @abstractmethod
    def import_handle(self, handle: ShareHandle) -> Allocation:
        """The allocation behind a handle, after checking that it is what the handle claims.

        Takes the handle's descriptor over, also when it raises. UsageError: not shared memory, or
        less than claimed. RightsError: memory that its owner could shrink under us, or with other
        rights than claimed.
        """

    @abstractmethod
    def retain(self, address: int) -> Allocation | None:
        """The allocation behind an address that somebody else mapped; None where there is none.

        The allocation is kept alive by the one returned.
        """

    def borrow(self, address: int, length: int) -> tuple[Allocation, Mapping] | None:
        """Memory of a device that somebody else here mapped, all in one allocation.

        None: this runtime knows nothing at the address. The allocation keeps the memory; the
        mapping undoes nothing. Raises UsageError for a range that leaves its allocation, and what
        `retain` does.
        """
        return None

    @abstractmethod
    def stream(self) -> Stream:
        """A new stream, idle."""

    def close(self) -> None:
        """Everything that was made through it is closed. Idempotent."""


class Stream(ABC):
    """An ordered queue of copies. Used by one thread at a time, except `abort`.

    Whoever enqueues keeps the memory, both sides of it, and the batch alive until the flag behind
    the copies is set or `abort` has returned True.
    """

    @abstractmethod
    def copy(self, run: Descriptors, op: int, done: Done) -> None:
        """Enqueue a run of copies; `op` is _core.READ or _core.WRITE. Returns before they are done.

        They look at the abort flag of `done` and leave a failure there. Raises Full, with nothing
        enqueued, when the queue has no room.
        """

    @abstractmethod
    def flag(self, done: Done, word: int, wake: bool = True) -> None:
        """Enqueue the completion of word `word` of `done`, and let the copies begin.

        It becomes visible after every byte enqueued before it, or after their failure. Without
        `wake` they may wait for the caller to help or to wake the runtime, which is cheaper.
        """

    @abstractmethod
    def help(self, done: Done, deadline: int | None) -> None:
        """The calling thread is about to wait for `done`: let it do work for it that nobody began.

        From any thread. `deadline` in nanoseconds of _core.now(); copies stop there, failed.
        """

    @abstractmethod
    def query(self) -> StreamState:
        """Whether anything enqueued is left to do. Does not block."""

    @abstractmethod
    def synchronize(self, timeout: float) -> bool:
        """Block until all that was enqueued is done; False when `timeout` seconds pass first."""

    @abstractmethod
    def abort(self, timeout: float) -> bool:
        """Drop what has not begun and stop what has; from any thread.

        Blocks at most `timeout` seconds. True: quiet, no byte will be written any more.
        """


class CallerStream(Stream):
    """A stream that also serves who would wait anyway.

    dead  nothing can be carried out on it any more
    """

    @abstractmethod
    def copy_inline(self, op: int, d: Descriptors, done: Done, deadline: int | None) -> None:
        """Carry a whole batch out in the calling thread, and complete `done`; blocks until then."""

    @property
    @abstractmethod
    def dead(self) -> bool: ...


class ControlStream(Stream):
    """A stream that takes whole batches for a coprocessor, with the worker stream it unfolds onto.

    From any thread. `query`, `synchronize` and `abort` speak of both streams.
    """

    @abstractmethod
    def publish(self, d: Descriptors, op: int, done: Done) -> bool:
        """Enqueue a batch with its completion as one entry, and let it begin; False when full.

        The time it takes does not depend on the number of descriptors. Until a coprocessor has
        begun the batch, `done.drop()` ends it.
        """

    @abstractmethod
    def await_room(self, deadline: int | None) -> bool:
        """Block until a publish may succeed, or `stir`; False at the deadline. Takes signals."""

    @abstractmethod
    def stir(self) -> None:
        """Those in await_room return."""
