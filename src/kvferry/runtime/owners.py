"""The three owners of shared memory: allocation, reservation, mapping.

    Allocation   |####|                   memory, named by a handle
                   |
    Mapping      |====|                   the binding of one to the other
                   |
    Reservation  |....................|   addresses of this process

Each has exactly one undo. It runs once: at `close()`, at the end of a `with`, or when the owner is
dropped. It never runs in a forked child, where the same descriptor or address may be somebody
else's by now. Owners may be closed in any order: closing an allocation leaves its mappings whole, a
mapping goes when its last buffer export goes, and a reservation when its mapping has gone.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import NamedTuple, TypeVar

from .._core import Reach, View
from ..errors import ClosedError, ForkedError, UsageError

__all__ = ["Access", "Allocation", "Grant", "Mapping", "Owner", "Reservation", "Undo"]

Self = TypeVar("Self", bound="Owner")


class Access(Enum):
    """What others may do with exported memory, or we with a mapping. To write is to read, too."""

    READ = "read"
    WRITE = "write"


class Grant(NamedTuple):
    """What an allocation obtained.

    asked    bytes
    granted  bytes, whole pages: asked, rounded up; less than asked where less would do
    page     bytes of a page that the kernel guarantees
    huge     bytes that stand in huge pages
    notes    what the machine could not do, and attempts that failed, a sentence each
    """

    asked: int
    granted: int
    page: int
    huge: int
    notes: tuple[str, ...] = ()


class Undo:
    """Carries `undo` out at the first call, in the process that made it; else does nothing.

    Safe to call from any thread and from the garbage collector.
    """

    def __init__(self, undo: Callable[[], None]) -> None:
        self.pid = os.getpid()
        self._pending = [undo]

    def __call__(self) -> None:
        # list.pop is atomic: of two threads that come here one gets the undo.
        try:
            undo = self._pending.pop()
        except IndexError:
            return
        if os.getpid() == self.pid:
            undo()


class Owner(ABC):
    """Owns one thing. Leaving its `with` block, or dropping it, closes it."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = Undo(undo)
        self.closed = False

    @abstractmethod
    def close(self) -> None:
        """Give it back; idempotent, and nothing in a forked child."""

    def check(self) -> None:
        """Raise ClosedError or ForkedError when it cannot be used here any more."""
        name = type(self).__name__.lower()
        if self.closed:
            raise ClosedError(f"the {name} was closed", cause="closed")
        if os.getpid() != self._undo.pid:
            raise ForkedError(f"the {name} belongs to the parent process", cause="forked")

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Allocation(Owner):
    """Physical memory.

    handle   how the runtime names it: on the host the descriptor of its memory file
    size     bytes, whole pages
    page     bytes; addresses and lengths of mappings are multiples of it
    shared   what others may do with it: fixed by its first export or by its import, None before
    grant    what was obtained; None for an imported one
    address  where this process has it without mapping it; None: nowhere
    """

    address: int | None = None

    def __init__(
        self,
        handle: int,
        size: int,
        page: int,
        undo: Callable[[], None],
        shared: Access | None = None,
    ) -> None:
        super().__init__(undo)
        self.handle = handle
        self.size = size
        self.page = page
        self.shared = shared
        self.grant: Grant | None = None

    def close(self) -> None:
        """Let the memory go; what is mapped stays mapped."""
        self.closed = True
        self._undo()

    def forked(self) -> None:
        """In a forked child: close the inherited descriptor."""
        if not self.closed:
            os.close(self.handle)


class Reservation(Owner):
    """An address range of this process: `size` bytes from `address` on."""

    def __init__(self, address: int, size: int, undo: Callable[[], None]) -> None:
        super().__init__(undo)
        self.address = address
        self.size = size
        self.bound = False

    def bind(self) -> None:
        """Take it for a mapping. UsageError when another has it."""
        self.check()
        if self.bound:
            raise UsageError(
                "something is mapped into this reservation already",
                cause="already_mapped",
                range=(self.address, self.size),
            )
        self.bound = True

    def unbind(self) -> None:
        """Its mapping is gone."""
        # The order of the two lines, here and in close, is what makes one of two racing threads
        # see both of them; Undo lets only one of them act.
        self.bound = False
        if self.closed:
            self._undo()

    def close(self) -> None:
        """Give the range back, now or when its mapping is gone."""
        self.closed = True
        if not self.bound:
            self._undo()


class Mapping(Owner):
    """An allocation behind the head of a reservation, bound before and kept until it is undone.

    view   the mapped bytes as a buffer, read-only where `access` is READ; the memory may be used
           as long as any buffer of the view is held, also after `close`
    reach  None where the processor loads and stores there; else what copies for it, without which
           nothing here may touch the addresses
    """

    def __init__(
        self,
        reservation: Reservation,
        size: int,
        access: Access,
        unmap: Callable[[], None],
        reach: Reach | None = None,
    ) -> None:
        def undo() -> None:
            unmap()
            reservation.unbind()

        super().__init__(undo)
        self.address = reservation.address
        self.size = size
        self.access = access
        self.reach = reach
        self.view = View(
            self.address, size, access is Access.READ, reservation, opaque=reach is not None
        )

    def close(self) -> None:
        """Unmap, now or when the last buffer of the view is released; no new buffers meanwhile."""
        self.closed = True
        self.view.on_idle(self._undo)
