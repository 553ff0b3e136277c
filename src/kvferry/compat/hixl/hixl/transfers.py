"""Reading and writing: at once, or begun and asked for later."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress

import kvferry as kf

from .batches import batches
from .codes import PARAM_INVALID, TransferOp, TransferStatus
from .connections import Connections
from .failures import Refused
from .memory import Memory
from .ranges import U64
from .requests import Request, Requests
from .statistics import Statistics
from .values import TransferResult

__all__ = ["Transfers"]

logger = logging.getLogger("hixl")

ASK_SECONDS = 1.0  # that transfer_async, which has no timeout, waits to hear of a peer's memory


class Transfers:
    """Thread-safe; owns the requests. Transfers over one channel run side by side."""

    def __init__(self, memory: Memory, connections: Connections, statistics: Statistics) -> None:
        self._memory = memory
        self._connections = connections
        self._statistics = statistics
        self._requests = Requests()

    def sync(self, remote: str, op: TransferOp, rows: U64, timeout: float) -> None:
        """Returns when every byte is in place. Raises Refused and what kvferry raises."""
        channel = self._connections.for_transfer(remote)
        deadline = time.monotonic() + timeout
        with self._connections.dropping(remote, channel):
            reports = []
            for batch in batches(rows, self._memory.ranges, channel, timeout):
                move = channel.read if op is TransferOp.READ else channel.write
                reports.append(move(batch, max(deadline - time.monotonic(), 0)))
        self._count(remote, reports, len(rows))

    def begin(self, remote: str, op: TransferOp, rows: U64, user_data: int) -> int:
        """The number of a request. Raises as `sync`."""
        channel = self._connections.for_transfer(remote)
        with self._connections.dropping(remote, channel):
            begun: list[kf.Transfer] = []
            try:
                for batch in batches(rows, self._memory.ranges, channel, ASK_SECONDS):
                    start = channel.read_async if op is TransferOp.READ else channel.write_async
                    begun.append(start(batch))
            except BaseException:
                _stop(begun)
                raise
        request = Request(remote, channel, tuple(begun), len(rows), user_data)
        number = self._requests.add(request)
        if not self._connections.holds(remote, channel):
            self._forget(channel)  # disconnected meanwhile; its requests were taken before this one
        return number

    def status(self, number: int) -> TransferStatus:
        """Where a request stands; what is final is told once."""
        request = self._requests.get(number)
        if request is None:
            raise Refused(PARAM_INVALID, f"there is no request {number}, or no longer")
        status = request.status()
        if status is not TransferStatus.WAITING:
            if not self._requests.end(number):
                raise Refused(PARAM_INVALID, f"request {number} is over, and was told of")
            self._conclude(request, status)
        return status

    def results(self, most: int, skip_waiting: bool) -> list[TransferResult]:
        """Of all requests, oldest first; what is final is told once."""
        found: list[TransferResult] = []
        for number, request in self._requests.all():
            if len(found) >= most:
                break
            status = request.status()
            if status is TransferStatus.WAITING and skip_waiting:
                continue
            if status is not TransferStatus.WAITING:
                if not self._requests.end(number):
                    continue
                self._conclude(request, status)
            found.append(TransferResult.of(number, request.user_data, status))
        return found

    def end(self, channel: kf.Channel) -> None:
        """Close the channel. Its requests vanish: they are known no more, not failed."""
        gone = self._requests.take(channel)
        try:
            channel.close()
        finally:
            _look_at(gone)

    def _forget(self, channel: kf.Channel) -> None:
        _look_at(self._requests.take(channel))

    def _conclude(self, request: Request, status: TransferStatus) -> None:
        if status is TransferStatus.COMPLETED:
            reports = [transfer.report for transfer in request.transfers]
            self._count(request.remote, reports, request.descriptors)
            return
        try:
            with self._connections.dropping(request.remote, request.channel):
                for transfer in request.transfers:
                    transfer.wait()
        except kf.Error as error:
            logger.error("a transfer with %s failed: %s", request.remote, error)

    def _count(self, remote: str, reports: Sequence[kf.Report], descriptors: int) -> None:
        self._statistics.update(
            remote,
            sum(report.seconds for report in reports) * 1e6,
            sum(report.moving_seconds for report in reports) * 1e6,
            sum(report.bytes for report in reports),
            descriptors,
        )


def _stop(transfers: Sequence[kf.Transfer]) -> None:
    """Blocks until they are quiet, or the engine's grace is over."""
    for transfer in transfers:
        transfer.cancel()
    for transfer in transfers:
        with suppress(kf.Error):
            transfer.wait(0)


def _look_at(requests: Sequence[Request]) -> None:
    """Nobody will ask for these any more; how they ended is for the log."""
    over = [each for request in requests for each in request.transfers]
    for transfer in over:
        try:
            if transfer.status is not kf.Status.PENDING:
                transfer.wait()
        except kf.Error as error:
            logger.info("a transfer was given up: %s", error)
