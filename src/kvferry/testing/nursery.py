"""A process that has imported everything, and forks children which need not import it again.

    test process                     nursery                          child
    birth(call, descriptors) ------> fork ---------------------------> runs the function
                             <------ its pid                           |
                             <------ its exit status, once it is reaped, when it ends

The nursery has one thread, no engine and no memory of ours, so that nothing of ours is forked. A
child takes over the caller's environment, folder and standard streams. It dies with the nursery,
and the nursery ends with who opened it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["Nursling", "birth", "main", "opened"]

# The largest request: an environment and the arguments of a function.
REQUEST_BYTES = 1 << 17

# What the loader and the interpreter read before there is anything to fork.
READ_AT_START = ("LD_", "PYTHON", "MALLOC_", "GLIBC_", "ASAN_", "UBSAN_", "TSAN_")

STREAMS = (1, 2)


class Nursling:
    """A child of the nursery, as subprocess.Popen would give it. Not thread-safe."""

    def __init__(self, life: socket.socket) -> None:
        self._life = life
        self._status: int | None = None
        self.pid = int(self._hear(None))

    def poll(self) -> int | None:
        """Its exit status, or minus the signal that ended it; None while it runs."""
        with contextlib.suppress(BlockingIOError):
            self._end(0.0)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """The same, when it ends; TimeoutExpired when it does not in time."""
        try:
            return self._end(timeout)
        except TimeoutError:
            assert timeout is not None
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout) from None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self, timeout: float | None) -> int:
        if self._status is None:
            self._status = int(self._hear(timeout))
            self._life.close()
        return self._status

    def _hear(self, timeout: float | None) -> bytes:
        self._life.settimeout(timeout)
        said = self._life.recv(64)
        if not said:
            raise EOFError("the nursery is gone")
        return said


class Nursery:
    """The near end."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._owner = os.getpid()
        self._environ = _read_at_start(os.environ)

    def takes(self) -> bool:
        """Would a child of it be what an interpreter started here and now is?"""
        return os.getpid() == self._owner and _read_at_start(os.environ) == self._environ

    def birth(self, wire: socket.socket) -> Nursling:
        """A child that serves `wire`, which stays the caller's."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        request = json.dumps({"environ": dict(os.environ), "folder": os.getcwd()}).encode()
        with theirs:
            fds = [wire.fileno(), theirs.fileno(), *STREAMS]
            socket.send_fds(self._end, [request], fds)
        return Nursling(ours)


_opened: list[Nursery] = []


@contextlib.contextmanager
def opened(modules: Sequence[str] = ()) -> Iterator[None]:
    """Within the block, `birth` has a nursery, which has imported `modules` too."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    main = f"nursery.main({theirs.fileno()}, {[*modules]}, process.main)"
    code = f"from kvferry.testing import nursery, process; {main}"
    with ours:
        with theirs:
            nursery = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # NumPy's library of linear algebra would start threads.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        _opened.append(Nursery(ours))
        try:
            yield
        finally:
            _opened.pop()
            ours.close()
            nursery.wait()


def birth(wire: socket.socket) -> Nursling | None:
    """A child that serves `wire`; None where only a new interpreter will do."""
    return _opened[-1].birth(wire) if _opened and _opened[-1].takes() else None


def main(descriptor: int, modules: Sequence[str], serve: Callable[[int, int], None]) -> None:
    """The far end. Returns when who opened it is gone; a child of it, when it has served.

    A child calls `serve` with the descriptor of its wire and the process of the nursery.
    """
    for name in modules:
        importlib.import_module(name)
    nursery = os.getpid()
    with socket.socket(fileno=descriptor) as end:
        wire = _wait_for_births(end)
    if wire is not None:
        serve(wire, nursery)


def _wait_for_births(end: socket.socket) -> int | None:
    """Returns to every child the descriptor that it serves, and at the end None."""
    alive: dict[int, socket.socket] = {}  # by the descriptor of the process
    poll = select.poll()
    poll.register(end, select.POLLIN)
    while True:
        for ready, _events in poll.poll():
            if ready in alive:
                poll.unregister(ready)
                _reap(ready, alive.pop(ready))
                continue
            request, descriptors, _flags, _address = socket.recv_fds(end, REQUEST_BYTES, 4)
            if not request:
                return None
            wire, life, *streams = descriptors
            pid = os.fork()
            if not pid:
                _forget([*alive, life, *(each.detach() for each in alive.values())])
                _move_in(json.loads(request), streams)
                return wire
            _forget([wire, *streams])
            pidfd = os.pidfd_open(pid)
            poll.register(pidfd, select.POLLIN)
            alive[pidfd] = socket.socket(fileno=life)
            _tell(alive[pidfd], pid)


def _reap(pidfd: int, life: socket.socket) -> None:
    """Only now may its number be another's."""
    end = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    assert end is not None
    _tell(life, end.si_status if end.si_code == os.CLD_EXITED else -end.si_status)
    life.close()
    os.close(pidfd)


def _move_in(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Be where the caller is."""
    for ours, theirs in zip(STREAMS, streams, strict=True):
        os.dup2(theirs, ours)
        os.close(theirs)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])


def _forget(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _tell(life: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the caller no longer asks
        life.send(str(number).encode())


def _read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: said for name, said in environ.items() if name.startswith(READ_AT_START)}
