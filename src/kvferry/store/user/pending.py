"""A batch call that is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from ...engine import Transfer
from ...errors import Cancelled, ClosedError, Full, Timeout
from .results import Results

__all__ = ["Pending", "Queue"]

AT_ONCE = 2  # threads of a store
MOST = 256  # calls under way before the next is refused


class Pending:
    """What a put or a get of many keys will answer. Thread-safe; may be awaited, too.

    The buffers of the call belong to it until it is over.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flying: list[Transfer] = []
        self._cancelled = False
        self._future: Future[Results] = Future()

    @property
    def done(self) -> bool:
        """Is it over, and do the buffers belong to the caller again?"""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> Results:
        """Block until it is over, for at most `timeout` seconds.

        Raises Timeout, and it goes on; Cancelled; or what the call itself would raise.
        """
        try:
            return self._future.result(timeout)
        except FutureTimeout:
            raise Timeout("the call is still under way", cause="timeout") from None
        except CancelledError:
            raise _cancelled() from None

    def cancel(self) -> None:
        """Have it end early, quiet; does not block. Keys that are done by then stay done."""
        with self._lock:
            self._cancelled = True
            flying = list(self._flying)
        self._future.cancel()
        for transfer in flying:
            transfer.cancel()

    def __await__(self) -> Generator[Any, None, Results]:
        import asyncio

        return self._awaited(asyncio.wrap_future(self._future)).__await__()

    async def _awaited(self, future: Any) -> Results:
        """Cancelling the task cancels the call, and ends when that has ended."""
        import asyncio

        cancelled: BaseException | None = None
        while not future.done():
            try:
                await asyncio.shield(asyncio.wait([future]))
            except asyncio.CancelledError as error:
                cancelled = error
                self.cancel()
        if not future.cancelled():
            future.exception()  # which asyncio would otherwise call forgotten
        if cancelled is not None:
            raise cancelled
        return self.wait(0)

    def watch(self, transfer: Transfer) -> None:
        """A transfer of it is under way."""
        with self._lock:
            self._flying = [each for each in self._flying if not each.done.quiet]
            self._flying.append(transfer)
            cancelled = self._cancelled
        if cancelled:
            transfer.cancel()

    def run(self, call: Callable[[Pending], Results]) -> None:
        """In a thread of the queue."""
        if not self._future.set_running_or_notify_cancel():
            return
        try:
            self._future.set_result(call(self))
        except BaseException as error:
            self._future.set_exception(error)

    def check(self) -> None:
        """Raises Cancelled when nobody wants it any more."""
        if self._cancelled:
            raise _cancelled()


class Queue:
    """Calls of one store that wait for a thread, and those that have one. Thread-safe."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="kvferry-store")
        self._free = threading.BoundedSemaphore(MOST)

    def start(self, call: Callable[[Pending], Results]) -> Pending:
        """Raises Full when very many are under way, ClosedError when the store was closed."""
        if not self._free.acquire(blocking=False):
            raise Full(f"{MOST} calls are under way", cause="too_many_calls")
        pending = Pending()
        try:
            future = self._threads.submit(pending.run, call)
        except RuntimeError as error:
            self._free.release()
            raise ClosedError("the store was closed", cause="closed") from error
        future.add_done_callback(lambda _: self._free.release())
        return pending

    def close(self) -> None:
        """What waits ends by finding the store closed; blocks until what has begun is over."""
        self._threads.shutdown()


def _cancelled() -> Cancelled:
    return Cancelled("the call was cancelled", cause="cancelled", bytes_moved=None)
