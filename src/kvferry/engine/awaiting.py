"""Waiting for transfers under asyncio: an eventfd that copy engines ring, one per event loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from .. import _core

if TYPE_CHECKING:
    import asyncio

__all__ = ["Bells"]


class Bells:
    """The eventfds of one engine. Thread-safe.

    A copy engine may still be about to ring one for a transfer that is over already, so they are
    closed with the engine, not with their loop; a closed loop's bell serves the next loop. A
    completion line knows one bell: whose rings, looks after the loops of the others, too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bells: list[_Bell] = []

    async def until_quiet(self, done: _core.Done, cancel: Callable[[], None]) -> None:
        """Return when `done` is quiet. Cancelling the task calls `cancel`; it ends after quiet."""
        import asyncio

        bell = self._of(asyncio.get_running_loop())
        cancelled: asyncio.CancelledError | None = None
        while not done.quiet:
            try:
                await asyncio.shield(bell.quiet(done))
            except asyncio.CancelledError as error:
                cancelled = error
                cancel()
        if cancelled is not None:
            raise cancelled

    def _of(self, loop: asyncio.AbstractEventLoop) -> _Bell:
        with self._lock:
            for bell in self._bells:
                if bell.loop is loop:
                    return bell
            for bell in self._bells:
                if bell.loop.is_closed():
                    bell.hang(loop)
                    return bell
            bell = _Bell(loop, self._rung)
            self._bells.append(bell)
            return bell

    def _rung(self, rung: _Bell) -> None:
        with self._lock:
            others = [bell for bell in self._bells if bell is not rung and bell.waiting]
        for bell in others:
            bell.look_soon()

    def close(self) -> None:
        """The copy engines have ended, and every transfer is quiet."""
        with self._lock:
            bells, self._bells = self._bells, []
        for bell in bells:
            bell.close()

    def forked(self) -> None:
        """In a forked child: the loops are the parent's."""
        for bell in self._bells:
            bell.abandon()


class _Bell:
    """One eventfd, watched by one loop at a time. All but close and look_soon: in that loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rung: Callable[[_Bell], None]) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._tell_others = rung
        self.hang(loop)

    def hang(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: dict[asyncio.Future[None], _core.Done] = {}
        loop.add_reader(self._fd, self._rung)

    def quiet(self, done: _core.Done) -> asyncio.Future[None]:
        """A future of this loop that is set when `done` is quiet, or will never be."""
        future: asyncio.Future[None] = self.loop.create_future()
        self.waiting[future] = done
        done.notify(self._fd)
        self._look()
        return future

    def _rung(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._fd)
        self._look()
        self._tell_others(self)

    def _look(self) -> None:
        for future, done in list(self.waiting.items()):
            if done.quiet or done.abandoned:
                del self.waiting[future]
                if not future.done():
                    future.set_result(None)

    def look_soon(self) -> None:
        """From any thread: let the loop see what is quiet by now."""
        with suppress(RuntimeError):  # the loop was closed, and nobody waits in it
            self.loop.call_soon_threadsafe(self._look)

    def close(self) -> None:
        """From any thread."""
        try:
            self.loop.call_soon_threadsafe(self._retire)
        except RuntimeError:
            os.close(self._fd)
            return
        if not self.loop.is_running():
            self._retire()

    def _retire(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._look()
            self.loop.remove_reader(fd)
            os.close(fd)

    def abandon(self) -> None:
        os.close(self._fd)
