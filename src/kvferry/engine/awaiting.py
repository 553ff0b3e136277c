"""Waiting for transfers under asyncio: an eventfd that copy engines ring, one per event loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import _core

if TYPE_CHECKING:
    import asyncio

__all__ = ["Bells"]


class Bells:
    """The eventfds of one engine. Thread-safe.

    A copy engine may still be about to ring one for a transfer that is over already, so they are
    closed with the engine, not with their loop; a closed loop's bell serves the next loop.
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
            bell = _Bell(loop)
            self._bells.append(bell)
            return bell

    def close(self) -> None:
        """The copy engines have ended."""
        for bell in self._bells:
            bell.close()
        self._bells.clear()

    def forked(self) -> None:
        """In a forked child: the loops are the parent's."""
        for bell in self._bells:
            bell.abandon()
        self._bells.clear()


class _Bell:
    """One eventfd, watched by one loop at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.hang(loop)

    def hang(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: dict[asyncio.Future[None], _core.Done] = {}
        loop.add_reader(self._fd, self._rung)

    def quiet(self, done: _core.Done) -> asyncio.Future[None]:
        """A future of this loop that is set when `done` is quiet."""
        future: asyncio.Future[None] = self.loop.create_future()
        done.notify(self._fd)
        if done.quiet:
            future.set_result(None)
        else:
            self._waiting[future] = done
        return future

    def _rung(self) -> None:
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return
        for future, done in list(self._waiting.items()):
            if done.quiet:
                del self._waiting[future]
                if not future.done():
                    future.set_result(None)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.remove_reader, self._fd)
        os.close(self._fd)

    def abandon(self) -> None:
        os.close(self._fd)
