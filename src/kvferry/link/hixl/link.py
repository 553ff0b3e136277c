"""The half of one channel: it submits to HIXL by itself, and the driver's thread completes."""

from __future__ import annotations

import contextlib

from ..._core import ABORTED, LOST, READ, Descriptors, Done
from ...errors import Error, UsageError
from ...memory import RemoteRegion
from ...path import Path
from ...runtime import Place
from ...submit import Slot
from ..base import Link, Peer, Published
from ..registered import attach_registered, bad_region
from .connection import HixlConnection
from .memory import Known, Ranges, newest
from .session import Session

__all__ = ["HixlLink"]


class HixlLink(Link):
    """Submits by itself; its transfers are completed by the driver's polling thread."""

    def __init__(
        self, peer: Peer, path: Path, session: Session, connection: HixlConnection
    ) -> None:
        self.peer = peer.name
        self.epoch = peer.facts.epoch
        self.path = path
        self._session = session
        self._connection = connection
        self._remote: dict[RemoteRegion, Known] = {}
        self._there = Ranges([])

    def why(self, done: Done) -> Error | None:
        return self._connection.over

    def attach(self, published: Published) -> RemoteRegion:
        region = attach_registered(published, self.peer, self.epoch, self.path)
        record = region.record
        try:
            place = Place(record.kind)
        except ValueError:
            raise bad_region(record, self.peer, f"is memory of kind {record.kind!r}") from None
        number = self._session.memory.number()
        self._remote[region] = Known(record.base, record.length, place, number)
        self._sort()
        return region

    def detach(self, region: RemoteRegion) -> None:
        self._remote.pop(region, None)
        self._sort()

    def submit(
        self,
        op: int,
        d: Descriptors,
        done: Done,
        deadline: int | None = None,
        patient: bool = False,
    ) -> Slot | None:
        if not len(d):
            done.finish(0)
            return None
        since, descriptors = self._newest(d), self._descriptors(d)
        connection = self._connection
        try:
            if done.aborted or not connection.enter(since, done, deadline, patient):
                done.fail(ABORTED)
                done.finish(0)
            else:
                connection.begin(self._op(op), descriptors, done)
        except Error:
            if connection.over is not None:
                done.fail(LOST)
            raise
        return None

    def wake(self) -> None:
        """HIXL needs nobody."""

    def abort(self, done: Done) -> None:
        done.abort()
        self._connection.abort(done)

    def help(self, lent: Slot, done: Done, deadline: int | None) -> None:
        """Nothing is lent."""

    def release(self, lent: Slot, failed: bool) -> None:
        """Nothing is lent."""

    def close(self) -> None:
        self._session.connections.release(self._connection)

    def _newest(self, d: Descriptors) -> int:
        memory = self._session.memory
        with contextlib.suppress(UsageError):
            return newest(d, memory.ranges, self._there, self.peer)
        memory.register_all()  # a region may be younger than the last connection
        return newest(d, memory.ranges, self._there, self.peer)

    def _op(self, op: int) -> object:
        kinds = self._session.module.TransferOp
        return kinds.READ if op == READ else kinds.WRITE

    def _descriptors(self, d: Descriptors) -> list[object]:
        make = self._session.module.TransferOpDesc
        return [make(*d.row(index)) for index in range(len(d))]

    def _sort(self) -> None:
        self._there = Ranges(list(self._remote.values()))
