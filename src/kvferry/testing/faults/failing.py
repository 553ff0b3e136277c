"""The n-th call of a runtime verb, a native constructor or the system fails, as it really would.

    with FailAt(7).installed() as fail_at:       the 7th of the calls of all SEAMS
        ...
    fail_at.failed                               its name; None: there were fewer

One call fails, once: the same call made again succeeds.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, NoReturn

from ... import _core
from ...errors import NoMemory
from ...link import tcp
from ...runtime import HostRuntime

__all__ = ["SEAMS", "FailAt", "Seam"]


class FailAt:
    """Counts calls and says which one fails: the `n`-th, or none for 0. Thread-safe.

    only    count calls of this name alone
    names   of all calls so far, in their order
    failed  the name of the one that failed
    """

    def __init__(self, n: int, only: str | None = None) -> None:
        self._n = n
        self._only = only
        self._count = 0
        self._lock = threading.Lock()
        self.names: list[str] = []
        self.failed: str | None = None

    def call(self, name: str) -> bool:
        """One more call; True when it is the one that fails."""
        with self._lock:
            self.names.append(name)
            if self._only not in (None, name):
                return False
            self._count += 1
            if self._count != self._n:
                return False
            self.failed = name
            return True

    @contextmanager
    def installed(self) -> Iterator[FailAt]:
        """Every seam of this process goes through here."""
        with ExitStack() as undo:
            for seam in SEAMS:
                real = getattr(seam.owner, seam.name)
                setattr(seam.owner, seam.name, seam.make(self, real))
                undo.callback(setattr, seam.owner, seam.name, real)
            yield self


class Seam(NamedTuple):
    """A place where something can fail: an attribute, and what stands in for it."""

    owner: Any
    name: str
    make: Callable[[FailAt, Any], Any]


# ---- how things fail ----


def raising(name: str, error: Callable[[], BaseException]) -> Callable[[FailAt, Any], Any]:
    """A function or constructor that raises instead of doing anything."""

    def fail() -> NoReturn:
        raise error()

    return answering(name, fail)


def answering(name: str, answer: Callable[[], Any]) -> Callable[[FailAt, Any], Any]:
    """A function that answers something else instead of doing anything."""

    def make(fail_at: FailAt, real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            return answer() if fail_at.call(name) else real(*arguments, **named)

        return call

    return make


def code(name: str, number: int) -> Callable[[FailAt, Any], Any]:
    return answering(name, lambda: number)


def system(name: str, number: int) -> Callable[[FailAt, Any], Any]:
    return raising(name, lambda: OSError(number, os.strerror(number)))


def no_memory() -> NoMemory:
    return NoMemory("on purpose", cause="no_memory")


def no_thread() -> RuntimeError:
    return RuntimeError("can't start new thread")


def failing_import(fail_at: FailAt, real: Any) -> Any:
    """Which takes the descriptor over in any case."""

    def import_handle(runtime: Any, handle: Any) -> Any:
        if not fail_at.call("import_handle"):
            return real(runtime, handle)
        os.close(handle.fd)
        raise no_memory()

    return import_handle


# ---- classes whose methods fail: they are extended, because native types cannot be patched ----


def failing_engines(fail_at: FailAt, real: Any) -> Any:
    class FailingEngines(real):  # type: ignore[misc]
        def start(self) -> int:
            return errno.EAGAIN if fail_at.call("copy engine threads") else int(super().start())

        def grow(self, threads: int) -> int:
            if fail_at.call("wire threads"):
                return errno.EAGAIN
            return int(super().grow(threads))

    return FailingEngines


def failing_server(fail_at: FailAt, real: Any) -> Any:
    class FailingServer(real):  # type: ignore[misc]
        def serve(self, fd: int, owner: int, *visitor: int) -> int:
            if not fail_at.call("serving thread"):
                return int(super().serve(fd, owner, *visitor))
            os.close(fd)
            return errno.EAGAIN

    return FailingServer


def failing_beats(fail_at: FailAt, real: Any) -> Any:
    class FailingBeats(real):  # type: ignore[misc]
        def __new__(cls, *arguments: Any) -> Any:
            if fail_at.call("beats"):
                raise MemoryError
            return super().__new__(cls, *arguments)

        def add(self, fd: int, *arguments: Any) -> Any:
            if not fail_at.call("beating thread"):
                return super().add(fd, *arguments)
            os.close(fd)
            return errno.EAGAIN, 0

    return FailingBeats


def failing_socket(fail_at: FailAt, real: Any) -> Any:
    class FailingSocket(real):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **named: Any) -> None:
            if named.get("fileno") is None and len(arguments) < 4 and fail_at.call("socket"):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            super().__init__(*arguments, **named)

    return FailingSocket


_VERBS = ("allocate", "reserve", "map", "export", "stream")

SEAMS = [
    *(Seam(HostRuntime, verb, raising(verb, no_memory)) for verb in _VERBS),
    Seam(HostRuntime, "import_handle", failing_import),
    Seam(_core, "vm_reserve", answering("vm_reserve", lambda: (errno.ENOMEM, 0))),
    Seam(_core, "vm_map", code("vm_map", errno.ENOMEM)),
    Seam(_core, "vm_populate", code("vm_populate", errno.ENOMEM)),
    Seam(_core, "vm_add_seals", code("vm_add_seals", errno.ENOMEM)),
    Seam(os, "memfd_create", system("memfd_create", errno.EMFILE)),
    Seam(os, "posix_fallocate", system("posix_fallocate", errno.ENOSPC)),
    Seam(os, "dup", system("dup", errno.EMFILE)),
    Seam(os, "eventfd", system("eventfd", errno.EMFILE)),
    Seam(socket, "socket", failing_socket),
    Seam(threading.Thread, "start", raising("thread", no_thread)),
    Seam(_core, "CopyEngines", failing_engines),
    Seam(tcp, "CopyEngines", failing_engines),
    Seam(_core, "WireServer", failing_server),
    Seam(_core, "Beats", failing_beats),
    Seam(_core, "Stream", raising("Stream", MemoryError)),
    Seam(_core, "ControlStream", raising("ControlStream", MemoryError)),
    Seam(_core, "Wire", raising("Wire", MemoryError)),
    Seam(_core, "BouncePool", raising("BouncePool", MemoryError)),
]
