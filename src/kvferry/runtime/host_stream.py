"""A stream of the host: a ring that the engine's copy engines drain."""

from __future__ import annotations

import os

from .. import _core
from ..errors import Full, NoMemory
from .base import Stream, StreamState

__all__ = ["HostStream"]


class HostStream(Stream):
    """An ordered queue of native copies; see Stream. Costs no thread of its own.

    The first one starts the threads of `engines`.
    """

    __slots__ = ("_done", "_native")

    def __init__(self, engines: _core.CopyEngines) -> None:
        code = engines.start()
        if code:
            raise NoMemory(f"starting copy engines: {os.strerror(code)}", cause="no_threads")
        self._native = _core.Stream(engines)
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
