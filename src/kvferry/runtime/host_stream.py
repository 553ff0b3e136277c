"""A stream of the host: a ring that the engine's copy engines drain."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from .. import _core
from ..errors import Full, NoMemory
from .base import ControlStream, Stream, StreamState

__all__ = ["HostControlStream", "HostStream"]


class HostStream(Stream):
    """An ordered queue of native copies; see Stream. Costs no thread of its own.

    The first one starts the threads of `engines`. `mover` carries out all of its runs; None: each
    as its descriptors say.
    """

    __slots__ = ("_done", "_native")

    def __init__(self, engines: _core.CopyEngines, mover: _core.Mover | None = None) -> None:
        _start(engines)
        with _room():
            self._native = _core.Stream(engines, mover)
        self._done: _core.Done | None = None

    def copy(self, run: _core.Descriptors, op: int, done: _core.Done) -> None:
        self._done = done
        if not self._native.copy(op, run, done):
            raise Full("the stream's ring is full", cause="ring_full")

    def flag(self, done: _core.Done, word: int, wake: bool = True) -> None:
        if not self._native.flag(done, word, wake):
            raise Full("the stream's ring is full", cause="ring_full")

    def help(self, done: _core.Done, deadline: int | None) -> None:
        self._native.help(done, deadline)

    def query(self) -> StreamState:
        return StreamState.BUSY if self._native.busy else StreamState.IDLE

    def synchronize(self, timeout: float) -> bool:
        return self._native.settle(_core.now() + int(timeout * 1e9))

    def abort(self, timeout: float) -> bool:
        if self._done is not None:
            self._done.abort()
        return self.synchronize(timeout)


class HostControlStream(HostStream, ControlStream):
    """A copy engine is the coprocessor: it unfolds onto a worker that any of them carries out.

    most  records of a logical batch, 1 to 1,920
    """

    __slots__ = ("_published",)

    _native: _core.ControlStream

    def __init__(self, engines: _core.CopyEngines, most: int) -> None:
        _start(engines)
        with _room():
            self._native = _core.ControlStream(engines, most)
        self._done = None
        self._published: deque[_core.Done] = deque(maxlen=self._native.depth)

    def publish(self, d: _core.Descriptors, op: int, done: _core.Done) -> bool:
        if not self._native.publish(op, d, done):
            return False
        self._published.append(done)
        return True

    def await_room(self, deadline: int | None) -> bool:
        self._native.await_room(deadline)
        return deadline is None or not self._native.full or _core.now() < deadline

    def stir(self) -> None:
        self._native.stir()

    def abort(self, timeout: float) -> bool:
        for done in list(self._published):
            done.abort()
            done.drop()
        return super().abort(timeout)


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise NoMemory("no memory for a stream", cause="no_memory") from error


def _start(engines: _core.CopyEngines) -> None:
    code = engines.start()
    if code:
        raise NoMemory(f"starting copy engines: {os.strerror(code)}", cause="no_threads")
