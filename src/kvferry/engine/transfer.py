"""One submitted batch, from submission to its outcome."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from .._core import LOST, PENDING, Flight, now
from ..batch import Batch
from ..errors import Cancelled, Error, UsageError
from .deadline import deadline_after
from .failure import Failure, Status
from .report import Report

if TYPE_CHECKING:
    from .channel import Channel

__all__ = ["Transfer"]


class Transfer(Flight):
    """A batch on its way. Made by Channel.read_async and write_async; thread-safe; awaitable.

    Holds the batch and what it refers to until the transfer is quiet. Dropping it does not cancel
    it: the channel keeps it until it ends, and a failure that nobody looked at is logged once.

    op     _core.READ or _core.WRITE
    batch  what was submitted
    """

    __slots__ = ()

    channel: Channel
    batch: Batch
    why: Error | None
    failure: Failure | None

    def wait(self, timeout: float | None = None) -> Report:
        """Block until the transfer is over and return what happened.

        When `timeout` seconds pass first it is aborted, and Timeout is raised once it is quiet; a
        transfer that was complete by then is returned after all. Raises NotQuiet when quiet does
        not come within the engine's grace: bytes may still land, the channel is dead. Raises
        Cancelled, PeerError (unknown outcome) or what ended the channel; UsageError, RightsError or
        ClosedError for a range that was refused late, and for memory that is not there. Takes
        signals.
        """
        return self.wait_until(None if timeout is None else deadline_after(timeout))

    def wait_until(self, deadline: int | None) -> Report:
        """As wait, to a point in nanoseconds of the monotonic clock."""
        channel = self.channel
        if self.state == PENDING:
            if not self.done.quiet:
                channel.help(self, deadline)
            if not self.done.wait(deadline) or self._lost_by(deadline):
                channel.expire(self)
            channel.settle(self)
        if self.failure is not None:
            raise self.failure.look()
        return Report(channel.path_of(self.d), self)

    def _lost_by(self, deadline: int | None) -> bool:
        """Was it stopped by the deadline in this very thread, and the peer owed an answer?"""
        return self.done.outcome == LOST and deadline is not None and now() >= deadline

    def cancel(self) -> None:
        """Ask for it to stop, and return. It never alters an outcome; wait returns after quiet."""
        self.channel.abort(
            self,
            Cancelled(
                "the transfer was cancelled",
                cause="cancelled",
                peer=self.channel.peer,
                bytes_moved=None,
            ),
        )

    @property
    def status(self) -> Status:
        """Where it stands now. Does not block."""
        if self.state == PENDING:
            if not self.done.quiet:
                self.channel.check_process()
                return Status.PENDING
            self.channel.settle(self)
        return Status.DONE if self.failure is None else self.failure.status

    @property
    def report(self) -> Report:
        """What happened. Raises UsageError while pending, and the failure when there was one."""
        if self.status is Status.PENDING:
            raise UsageError("the transfer is still pending", cause="pending")
        return self.wait_until(None)

    def __await__(self) -> Generator[Any, None, Report]:
        """Wait under asyncio without blocking the loop.

        Cancelling the await cancels the transfer; CancelledError comes once it is quiet.
        """
        if not self.done.quiet:
            self.channel.check_process()
            try:
                yield from self.channel.until_quiet(self).__await__()
            except BaseException:
                if self.status is not Status.PENDING and self.failure is not None:
                    self.failure.dismiss()  # whoever cancelled the await knows
                raise
        return self.wait_until(None)

    def __repr__(self) -> str:
        return f"<Transfer of {self.batch!r} with {self.channel.peer}: {self.status.value}>"
