"""A device of this process, and the context in which everything here is done on it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from ... import _core
from ...errors import ClosedError, ForkedError, UsageError
from ..owners import Undo
from .codes import Code
from .functions import FUNCTIONS, Capability
from .library import Library

__all__ = ["Device", "Identity"]

A3 = "Ascend910_93"
GONE = (Code.RT_PARAM_INVALID, Code.RT_CONTEXT_NULL)

# What native threads call; a library that lacks one of them has no streams, but reach.
NATIVE = {
    "memcpy": "aclrtMemcpy",
    "memcpy_async": "aclrtMemcpyAsync",
    "query": "aclrtStreamQuery",
    "abort": "aclrtStreamAbort",
    "get_context": "aclrtGetCurrentContext",
    "set_context": "aclrtSetCurrentContext",
}


class Identity(NamedTuple):
    """Who this process is to exporters, and on what.

    tgid  the number by which an exporter lets it in, the host's also inside a container; None: the
          library does not tell
    soc   what the library drives, such as Ascend910_9391; None: it does not know
    """

    tgid: int | None
    soc: str | None


class Device:
    """Holds the device and a context of its own from its making until `close`, or longer: until the
    last of those that `keep` it has let go. Thread-safe.

    library  whose functions are called
    number   as this process counts devices
    count    of devices
    context  for native code, which makes it current and puts the former one back, as `current` does
    calls    the functions that native code needs
    """

    def __init__(self, library: Library, number: int) -> None:
        self.library = library
        self.number = number
        self.count = _count(library)
        if not 0 <= number < self.count:
            raise UsageError(f"no device {number}: there are {self.count}", cause="bad_device")
        self.calls = _native(library)
        self.closed = False
        self._pid = os.getpid()
        self._keepers = 1  # ourselves
        # The garbage collector may let go while this very thread begins to keep.
        self._lock = threading.RLock()
        # Never finalised: others in this process may use it.
        library.call("aclInit", None, allow=(Code.REPEAT_INITIALIZE,))
        before = self._current()
        with ExitStack() as undo:
            library.call("aclrtSetDevice", number)
            undo.callback(library.call, "aclrtResetDevice", number)
            destroy = partial(library.call, "aclrtDestroyContext")
            self.context = library.make(undo, destroy, "aclrtCreateContext", number)
            self._restore(before)
            self._undo = undo.pop_all()

    def check(self) -> None:
        """Raise ClosedError or ForkedError when nothing new can be begun here."""
        if os.getpid() != self._pid:
            raise ForkedError("the device belongs to the parent process", cause="forked")
        if self.closed:
            raise ClosedError("the runtime was closed", cause="closed")

    @contextmanager
    def current(self) -> Iterator[None]:
        """Our context for the calling thread; the former one afterwards.

        A thread that had none keeps ours: ACL cannot take one away.
        """
        before = self._current()
        if before == self.context:
            yield
            return
        self.library.call("aclrtSetCurrentContext", self.context)
        try:
            yield
        finally:
            self._restore(before)

    def call(self, name: str, *arguments: object, allow: Collection[int] = ()) -> int:
        """Library.call in our context."""
        with self.current():
            return self.library.call(name, *arguments, allow=allow)

    def made(self, name: str, *arguments: object) -> int:
        """Library.call: the pointer that `name` leaves where its first argument points."""
        place = ctypes.c_void_p()
        self.library.call(name, ctypes.byref(place), *arguments)
        return place.value or 0

    def asked(self, name: str, *arguments: object) -> int:
        """Library.call: the int32 that `name` leaves where its last argument points."""
        place = ctypes.c_int32()
        self.library.call(name, *arguments, ctypes.byref(place))
        return place.value

    def native(self) -> _core.AclCalls:
        """What native code calls, for one who may give it up alone."""
        return _native(self.library)

    def keep(self) -> Undo:
        """Keep the device until what is returned is called, from anywhere. Inside `using`."""
        with self._lock:
            self._keepers += 1
        return Undo(self._let_go)

    @contextmanager
    def using(self) -> Iterator[None]:
        """`current`, while the device is kept. ClosedError or ForkedError when it is too late."""
        self.check()  # before the lock: who forked may have held it
        with self._lock:
            self.check()
            kept = self.keep()
        try:
            with self.current():
                yield
        finally:
            kept()

    def make(self, end: str, name: str, *arguments: object) -> int:
        """`made`, until the device goes: then `end` is called with it, of the last one first."""
        return self.library.make(self._undo, partial(self.library.call, end), name, *arguments)

    def close(self) -> None:
        """Begin nothing new, and end when nobody keeps it. Idempotent; nothing in a fork."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            first, self.closed = not self.closed, True
        if first:
            self._let_go()

    def physical(self) -> int:
        """The number of the device in the machine, in which host memory is laid out."""
        if not self.library.has(Capability.NUMBERS):
            return self.number
        return self.asked("aclrtGetPhyDevIdByLogicDevId", self.logical())

    def logical(self) -> int:
        """The number by which access is given to it."""
        if not self.library.has(Capability.NUMBERS):
            return self.number
        return self.asked("aclrtGetLogicDevIdByUserDevId", self.number)

    def identity(self) -> Identity:
        """See Identity. Asks the library."""
        has = self.library.has(Capability.PIDS)
        return Identity(
            self.asked("aclrtDeviceGetBareTgid") if has else None,
            self.library.soc(),
        )

    def crosses_hosts(self) -> bool:
        """Is it of the one kind whose memory other servers reach?"""
        return (self.library.soc() or "").startswith(A3)

    def _let_go(self) -> None:
        with self._lock:
            self._keepers -= 1
            last = self._keepers == 0
        if last:
            with self.current():
                self._undo.close()

    def _current(self) -> int | None:
        place = ctypes.c_void_p()
        none = Code.RT_CONTEXT_NULL
        code = self.library.call("aclrtGetCurrentContext", ctypes.byref(place), allow=(none,))
        return None if code else place.value

    def _restore(self, before: int | None) -> None:
        """A context that was destroyed elsewhere stays some threads' own, and is refused."""
        if before is not None:
            self.library.call("aclrtSetCurrentContext", before, allow=GONE)


def _count(library: Library) -> int:
    place = ctypes.c_uint32()
    library.call("aclrtGetDeviceCount", ctypes.byref(place))
    return place.value


def _native(library: Library) -> _core.AclCalls:
    return _core.AclCalls(**{name: _address(library, of) for name, of in NATIVE.items()})


def _address(library: Library, name: str) -> int:
    if not library.has(FUNCTIONS[name].capability):
        return 0
    function: Any = library.function(name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0
