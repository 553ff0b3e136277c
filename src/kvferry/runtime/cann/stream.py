"""Streams of a device: each with a context of its own, since a failure stops a whole context.

context
  |- stream          stops at the first failure
flag                 eight bytes of pinned host memory: set behind the copies of a round
one                  eight bytes of the device that hold 1; shared by all
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from weakref import WeakSet

from ... import _core
from ..base import CallerStream
from ..host_stream import HostStream
from ..owners import Undo
from .device import Device
from .enums import FailureMode, MemcpyKind, MemMallocPolicy, StreamCreation
from .functions import Capability

__all__ = ["CannStream", "CannStreams"]

WORD = 8
GIVEN_UP = 0.5  # seconds, in which a thread lets go of a stream that it could not stop
HIGHEST = 0  # priority
FAST = StreamCreation.FAST_LAUNCH | StreamCreation.FAST_SYNC


# Nothing of these may go as long as the process lives.
_abandoned: list[CannStream] = []


class CannStream(HostStream, CallerStream):
    """A copy engine submits its runs to the device and waits for them.

    After a failure, an abort or a timeout it is dead. `end` gives what it was made with back.
    """

    __slots__ = ("_copy_inline", "_end", "_mover", "_one", "_wake")

    def __init__(
        self,
        engines: _core.CopyEngines,
        mover: _core.AclMover,
        one: object,
        end: Callable[[], None],
    ) -> None:
        self._mover = mover
        self._end = Undo(end)
        super().__init__(engines, mover)
        self._one = one  # which the mover copies
        self._copy_inline = engines.copy_inline
        self._wake = engines.wake

    def copy_inline(
        self, op: int, d: _core.Descriptors, done: _core.Done, deadline: int | None
    ) -> None:
        d.via(self._mover)
        self._copy_inline(op, d, done, deadline)

    def help(self, done: _core.Done, deadline: int | None) -> None:
        """Not in the caller's thread: the library may not let go of one that aborts a stream."""
        self._wake()

    @property
    def dead(self) -> bool:
        return self._mover.failed

    @property
    def abandoned(self) -> bool:
        """May the device use what it was made with for ever?"""
        return self._mover.abandoned

    def close(self) -> None:
        """Give back what it was made with, unless the device may still use it. Idempotent."""
        if not self.abandoned:
            self._end()

    def __del__(self) -> None:
        with suppress(AttributeError):  # a signal handler raised before it owned anything
            self.close()


class CannStreams:
    """Makes streams for one engine. Thread-safe.

    engines  native threads that submit and wait; as many streams are busy at once
    aliases  by which address the device reaches this process's own memory

    Raises Unsupported where the library lacks what streams need.
    """

    def __init__(
        self, device: Device, engines: _core.CopyEngines, aliases: _core.SpanTable
    ) -> None:
        for capability in (Capability.STREAMS, Capability.COPIES, Capability.ABORT):
            device.library.require(capability)
        self._device = device
        self._engines = engines
        self._aliases = aliases
        self._calls = device.native()
        self._one = One(device)
        self._open: WeakSet[CannStream] = WeakSet()
        # What ends each stream that has not ended, whatever became of its owner.
        self._undo: dict[ExitStack, _core.AclMover | None] = {}

    def open(self) -> CannStream:
        """A new stream. Raises what the library's refusal means; then nothing is left of it."""
        undo = ExitStack()
        self._undo[undo] = None
        try:
            return self._make(undo)
        except BaseException:
            self._end(undo)
            raise

    def _make(self, undo: ExitStack) -> CannStream:
        device, call = self._device, self._device.library.call
        with device.current():
            undo.callback(device.keep())
            undo.callback(call, "aclrtSetCurrentContext", device.context)
            make = partial(device.library.make, undo)
            context = make(
                partial(call, "aclrtDestroyContext"), "aclrtCreateContext", device.number
            )

            def destroy(queue: int) -> None:
                call("aclrtSetCurrentContext", context)
                call("aclrtDestroyStream", queue)

            queue = make(destroy, "aclrtCreateStreamWithConfig", HIGHEST, FAST)
            call("aclrtSetStreamFailureMode", queue, FailureMode.STOP_ON_FAILURE)
            flag = make(partial(call, "aclrtFreeHost"), "aclrtMallocHost", WORD)
            call("aclrtSetCurrentContext", device.context)
        mover = self._undo[undo] = _core.AclMover(
            self._calls, context, queue, self._aliases, flag, self._one.address
        )
        stream = CannStream(self._engines, mover, self._one, partial(self._end, undo))
        self._open.add(stream)
        return stream

    def _end(self, undo: ExitStack) -> None:
        with self._device.current():
            undo.close()
        self._undo.pop(undo, None)

    def close(self) -> None:
        """End all streams. One that the library does not stop may write for ever, and stays."""
        self._calls.give_up()
        for stream in list(self._open):
            stream.synchronize(GIVEN_UP)
            stream.close()
        for undo, mover in list(self._undo.items()):  # a signal handler raised in a finaliser
            if mover is None or not mover.abandoned:
                self._end(undo)
        left = [stream for stream in self._open if stream.abandoned]
        _abandoned.extend(left)
        if not left:
            self._one.close()


class One:
    """Eight bytes of the device that hold 1, as long as anybody has them."""

    def __init__(self, device: Device) -> None:
        call, one = device.library.call, ctypes.c_uint64(1)
        with device.current(), ExitStack() as undo:
            undo.callback(device.keep())
            self.address = device.made("aclrtMalloc", WORD, MemMallocPolicy.HUGE_FIRST)
            undo.callback(device.call, "aclrtFree", self.address)
            where, kind = ctypes.addressof(one), MemcpyKind.HOST_TO_DEVICE
            call("aclrtMemcpy", self.address, WORD, where, WORD, kind)
            self._end = Undo(undo.pop_all().close)

    def close(self) -> None:
        """No stream is in use any more. Idempotent."""
        self._end()

    def __del__(self) -> None:
        with suppress(AttributeError):  # the library refused before it owned anything
            self.close()
