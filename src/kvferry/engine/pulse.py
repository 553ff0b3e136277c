"""How peers on this host see that an engine lives: a page of memory, and a thread that keeps it.

owner   |page|  written by the kernel when the keeper thread ends
          | descriptor with the Welcome, read-only
peer    |page|  read after the last byte of every transfer
"""

from __future__ import annotations

from contextlib import ExitStack

from .. import _core
from ..errors import Error
from ..runtime import Access, HostRuntime, Mapping, ShareHandle

__all__ = ["PAGE", "Pulse", "map_pulse"]

PAGE = 4096


class Pulse:
    """The owner's half. Close it to tell peers that the engine is closed."""

    def __init__(self, runtime: HostRuntime, epoch: int) -> None:
        self._runtime = runtime
        with ExitStack() as undo:
            self._allocation = undo.enter_context(runtime.allocate(PAGE, page=PAGE))
            reservation = undo.enter_context(runtime.reserve(PAGE))
            self._mapping = undo.enter_context(
                runtime.map(self._allocation, reservation, Access.WRITE)
            )
            self._keeper = _core.Keeper(self._mapping.address, epoch)
            self._owners = undo.pop_all()

    def share(self) -> list[int]:
        """Descriptors for a peer, its caller's to close: one, or none when nothing keeps it."""
        if not self._keeper.keeps:
            return []
        return self._runtime.export(self._allocation, Access.READ).fds

    def forked(self) -> None:
        """In a forked child: the page is not mapped here."""
        self._allocation.forked()

    def close(self) -> None:
        """The page stays mapped at peers, marked."""
        self._keeper.stop()
        self._owners.close()


def map_pulse(runtime: HostRuntime, fd: int) -> Mapping | None:
    """A peer's page, read-only; None when it is none. Takes the descriptor over."""
    try:
        with runtime.import_handle(ShareHandle(fd, PAGE, PAGE, Access.READ)) as allocation:
            return runtime.map(allocation, runtime.reserve(PAGE), Access.READ)
    except Error:
        return None
