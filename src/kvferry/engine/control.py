"""What a channel asks its peer over the control connection, and whether the peer is still there."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence

from .. import _core
from ..errors import Error, Full, PeerError, RightsError, Timeout, UsageError
from ..link import Published
from ..rpc import Connection, close_all
from ..runtime import Mapping
from . import messages
from .deadline import deadline_after
from .heartbeat import Heartbeat
from .messages import Message
from .regions import Links

__all__ = ["Control", "ask"]

# How a refusal is raised at the side that asked; all other causes are the peer's fault.
_REFUSALS: dict[str, type[Error]] = {
    "token": RightsError,
    "no_service": UsageError,
    "read_only": RightsError,
    "tenant": RightsError,
    "queue_full": Full,
    "users": Full,
}


def ask(
    connection: Connection,
    message: Message,
    timeout: float | None,
    peer: str,
    lent: Sequence[int] = (),
) -> tuple[Message, list[int]]:
    """The peer's answer and the descriptors with it, which the caller owns. Raises its refusal.

    `lent` descriptors travel with the message.
    """
    body, fds = connection.call(messages.encode(message), lent, timeout)
    try:
        answer = messages.decode(body)
        if isinstance(answer, messages.Refusal):
            kind = _REFUSALS.get(answer.cause, PeerError)
            raise kind(answer.text, cause=answer.cause, peer=peer)
    except BaseException:
        close_all(fds)
        raise
    return answer, fds


class Control:
    """One authenticated control connection. Thread-safe; owns the peer's pulse and process.

    watch      tells whether the peer is gone
    ticket     names the connection to others of the same peer
    heartbeat  settable: that with the peer, ended with this
    """

    def __init__(
        self,
        connection: Connection,
        ticket: bytes,
        pulse: Mapping | None,
        pidfd: int | None,
        peer: str,
        epoch: int,
        timeout: float,
    ) -> None:
        self.peer = peer
        self.epoch = epoch
        self.ticket = ticket
        # A number of our own: the connection's may be somebody else's a moment after it is lost.
        self._descriptors = [os.dup(connection.fileno())]
        self._pulse = pulse
        self.watch = _core.PeerWatch(pidfd, self._descriptors[0], pulse, epoch)
        if pidfd is not None:
            self._descriptors.append(pidfd)
        self.heartbeat: Heartbeat | None = None
        self._connection = connection
        self._timeout = timeout

    def call(self, service: str, request: bytes, timeout: float | None) -> bytes:
        answer = self._ask(messages.Call(service, request), timeout)
        if not isinstance(answer, messages.Result):
            raise self._confused(answer)
        return answer.response

    def notify(self, name: str, message: bytes, timeout: float | None) -> None:
        self._ask(messages.Notify(name, message), timeout)

    def list_regions(self, links: Links, timeout: float | None) -> Iterator[Published]:
        """The peer's regions as they stand, each owned by who iterates. All within `timeout`."""
        end = time.monotonic() + (self._timeout if timeout is None else timeout)
        after, more = 0, True
        while more:
            left = end - time.monotonic()
            if left <= 0:
                raise Timeout("listing regions took too long", cause="call_timeout", peer=self.peer)
            question = messages.ListRegions(*links, after)
            answer, fds = ask(self._connection, question, left, self.peer)
            with contextlib.ExitStack() as undo:
                undo.callback(close_all, fds)
                if not isinstance(answer, messages.Regions) or not answer.fits(after, len(fds)):
                    raise self._confused(answer)
                after, more = answer.last, answer.more
                for record, count in zip(answer.records, answer.counts, strict=True):
                    taken = fds[:count]
                    del fds[:count]
                    yield Published(record, taken)

    def lose(self, why: PeerError) -> None:
        """End the connection because of `why`, and with it the channel."""
        self._connection.lose(why)

    def close(self) -> None:
        self.watch.lost = True
        if self.heartbeat is not None:
            self.heartbeat.close()
        self._connection.close()
        self._close_descriptors()

    def abandon(self) -> None:
        """In a forked child: close what was inherited, without a word to the peer."""
        self.watch.lost = True
        self._connection.abandon()
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())
        if self._pulse is not None:
            self._pulse.close()

    def _ask(self, message: Message, timeout: float | None) -> Message:
        if timeout is not None:
            deadline_after(timeout)  # refuses one that is none
        try:
            answer, fds = ask(
                self._connection, message, self._timeout if timeout is None else timeout, self.peer
            )
        except (PeerError, Timeout) as error:
            error.safe_to_retry = False  # the peer may have carried it out
            raise
        close_all(fds)
        return answer

    def _confused(self, answer: Message) -> PeerError:
        return PeerError(
            f"unexpected answer {type(answer).__name__}", cause="protocol", peer=self.peer
        )
