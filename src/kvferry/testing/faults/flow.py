"""One way of a proxied connection: what is read, what is to be done with it, what has left."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ...rpc import close_all
from ...rpc.descriptors import ROOM, pack, unpack
from .mutations import End, Late, Pause, Step
from .units import Cutter, Way

__all__ = ["Flow", "Rules"]

CHUNK = 64 << 10
LATE_SECONDS = 0.03  # how long what is late waits for a next unit


class Rules(Protocol):
    """What a flow asks."""

    def steps(self, way: Way, number: int, unit: bytes) -> list[Step]:
        """What is done with the unit of this number."""

    def framed(self, units: int) -> bool:
        """After so many units: is the next one a frame?"""


class Flow:
    """One way of a connection. Reads only when everything read before has left."""

    def __init__(self, way: Way, source: socket.socket, sink: socket.socket, rules: Rules) -> None:
        self.ended = False  # nothing comes any more, and all has left
        self._rules = rules
        self._way = way
        self._source = source
        self._sink = sink
        self._cutter = Cutter()
        self._units = 0
        self._todo: deque[tuple[Step, list[int]]] = deque()
        self._late = b""
        self._until = 0.0  # it pauses, or what is late waits
        self._dry = False  # the source has ended
        self._deaf = False  # the sink was told that nothing comes; the rest goes nowhere
        self._fds: list[int] = []

    def watch(self, poll: select.poll, now: float) -> float:
        """Asks `poll` for what it needs next; the seconds until it wants a turn anyway."""
        if self._until > now and self._todo:
            return self._until - now
        if self._todo:
            self._want(poll, self._sink, select.POLLOUT)
        elif not self._dry:
            self._want(poll, self._source, select.POLLIN)
        return max(self._until - now, 0) if self._late else 60.0

    def turn(self, ready: dict[int, int], now: float) -> None:
        if not self._todo and not self._dry and self._source.fileno() in ready:
            self._read(now)
        if self._late and now >= self._until:
            self._put([self._late], [])
            self._late = b""
        while self._todo and now >= self._until and self._do(now):
            pass
        self.ended = self._dry and not self._todo

    def drop(self) -> None:
        close_all(self._fds)
        for _, fds in self._todo:
            close_all(fds)
        self._fds.clear()
        self._todo.clear()

    @staticmethod
    def _want(poll: select.poll, sock: socket.socket, event: int) -> None:
        """Both flows may want something of one socket."""
        with suppress(FileNotFoundError):
            poll.modify(sock, select.POLLIN | select.POLLOUT)
            return
        poll.register(sock, event)

    def _read(self, now: float) -> None:
        try:
            data = self._receive()
        except BlockingIOError:
            return
        self._cutter.feed(data)
        while (unit := self._cutter.next()) is not None:
            self._take(unit, now)
        if not data:
            self._dry = True
            self._put([self._cutter.rest(), self._late, End.HALF], self._fds)
            self._fds, self._late = [], b""

    def _receive(self) -> bytes:
        if self._source.family != socket.AF_UNIX:
            return self._source.recv(CHUNK)
        flags = socket.MSG_CMSG_CLOEXEC
        data, ancillary, _, _ = self._source.recvmsg(CHUNK, ROOM, flags)
        self._fds += unpack(ancillary)
        return data

    def _take(self, unit: bytes, now: float) -> None:
        claimed = unit[5] if self._cutter.framed and len(unit) > 5 else len(self._fds)
        fds, self._fds = self._fds[:claimed], self._fds[claimed:]
        late, self._late = self._late, b""
        steps = self._rules.steps(self._way, self._units, unit)
        self._units += 1
        self._cutter.framed = self._rules.framed(self._units)
        for step in steps:
            if isinstance(step, Late):
                self._late, self._until = step.data, now + LATE_SECONDS
        self._put([*(step for step in steps if not isinstance(step, Late)), late], fds)

    def _put(self, steps: Sequence[Step], fds: list[int]) -> None:
        """Descriptors leave with the first bytes; without any bytes they are dropped."""
        for step in steps:
            if step == b"":
                continue
            takes = isinstance(step, bytes)
            self._todo.append((step, fds if takes else []))
            fds = [] if takes else fds
        close_all(fds)

    def _do(self, now: float) -> bool:
        """One step; False when it must wait."""
        step, fds = self._todo[0]
        if isinstance(step, bytes) and not self._deaf:
            sent = self._send(step, fds)
            if sent == 0:
                return False
            if sent < len(step):
                close_all(fds)
                self._todo[0] = step[sent:], []
                return True
        elif isinstance(step, Pause):
            self._until = now + step.seconds
        elif step is End.HALF and not self._deaf:
            self._deaf = True
            self._sink.shutdown(socket.SHUT_WR)
        elif step is End.BOTH:
            raise ConnectionResetError
        self._todo.popleft()
        close_all(fds)
        return True

    def _send(self, data: bytes, fds: list[int]) -> int:
        try:
            if fds and self._sink.family == socket.AF_UNIX:
                return self._sink.sendmsg([data], pack(fds))
            return self._sink.send(data)
        except BlockingIOError:
            return 0
