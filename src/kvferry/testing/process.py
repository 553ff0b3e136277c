"""Runs a function of a test in a fresh process, and talks to it in JSON, a value a line.

    parent                               child
    spawn(serve, 3) --------------------> serve(parent, 3)
    child.ask({"add": 4})   -- tell ---->  parent.hear()
                            <--- tell ---  parent.tell(7)
    child.result()          <-- return --  what serve returned, or its traceback

The child is no fork of its caller: it is a new interpreter, or one that a nursery has ready. It
loads the file the function stands in and calls the function by its name. It dies with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from . import nursery
from .nursery import Nursling
from .under_test import adopt

__all__ = ["Child", "ChildFailed", "Parent", "spawn"]

TIMEOUT = 20.0
POLL_SECONDS = 0.005
PR_SET_PDEATHSIG = 1


class ChildFailed(AssertionError):
    """The function raised in the child, whose traceback is the message, or the child is gone."""


class Wire:
    """One end of a stream of JSON values, one a line. Not thread-safe; blocks up to `timeout`."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._received = bytearray()

    def send(self, value: Any, timeout: float) -> None:
        self._socket.settimeout(timeout)
        self._socket.sendall(json.dumps(value).encode() + b"\n")

    def receive(self, timeout: float | None) -> Any:
        """The next value. TimeoutError when none comes in time, EOFError when none will come."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (end := self._received.find(b"\n")) < 0:
            left = None if deadline is None else max(deadline - time.monotonic(), 1e-3)
            self._socket.settimeout(left)
            try:
                chunk = self._socket.recv(1 << 16)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise EOFError("the other end is gone")
            self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return json.loads(line)

    def end(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(OSError):  # the other end is gone: it knows
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


class Parent:
    """What the function in the child talks to."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def tell(self, value: Any) -> None:
        self._wire.send({"said": value}, TIMEOUT)

    def hear(self, timeout: float | None = TIMEOUT) -> Any:
        """The next value the parent told. EOFError when the parent has closed its end."""
        return self._wire.receive(timeout)

    def __iter__(self) -> Iterator[Any]:
        """What the parent tells, until it closes its end."""
        with contextlib.suppress(EOFError):
            while True:
                yield self.hear(timeout=None)


class Child:
    """A process that runs one function. Leaving its block kills and reaps it, whatever it does."""

    def __init__(self, process: subprocess.Popen[bytes] | Nursling, wire: Wire, name: str) -> None:
        self._process = process
        self._wire = wire
        self._name = name

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, value: Any, timeout: float = TIMEOUT) -> None:
        self._wire.send(value, timeout)

    def hear(self, timeout: float = TIMEOUT) -> Any:
        """The next value the child told; ChildFailed when it raised, returned or died instead."""
        kind, value = self._receive(timeout)
        if kind != "said":
            raise ChildFailed(f"{self._name} returned {value!r} where a word of it was awaited")
        return value

    def ask(self, value: Any, timeout: float = TIMEOUT) -> Any:
        """Tell, then hear."""
        self.tell(value, timeout)
        return self.hear(timeout)

    def result(self, timeout: float = TIMEOUT) -> Any:
        """What the function returned; closes the child's input so that its loop ends. Reaps it."""
        self._wire.end()
        kind, value = self._receive(timeout)
        if kind != "returned":
            raise ChildFailed(f"{self._name} still says {value!r} where its return was awaited")
        self.wait(timeout)
        return value

    def wait(self, timeout: float = TIMEOUT) -> int:
        """Reap it when it ends: its exit status, or minus the signal that ended it."""
        return self._process.wait(timeout)

    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and reap."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGSTOP; returns when every thread of it stands still."""
        self._process.send_signal(signal.SIGSTOP)
        self._await(lambda: self._states() <= set("Tt"), "stop")

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it and reap it."""
        self._wire.close()
        self.kill()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _receive(self, timeout: float) -> tuple[str, Any]:
        try:
            ((kind, value),) = self._wire.receive(timeout).items()
        except TimeoutError:
            raise TimeoutError(f"{self._name} said nothing for {timeout} s") from None
        except EOFError:
            status = self._process.wait(TIMEOUT)
            raise ChildFailed(f"{self._name} ended without a word, status {status}") from None
        if kind == "raised":
            raise ChildFailed(f"{self._name} raised\n{value}")
        return kind, value

    def _states(self) -> set[str]:
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks}

    def _await(self, there: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not there():
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{self._name} did not {what}")
            time.sleep(POLL_SECONDS)


def spawn(function: Callable[..., Any], *args: Any) -> Child:
    """Call ``function(parent, *args)`` in a fresh process and return at once.

    `function` stands at the top level of its file; `args` and all that is told are JSON values.
    The caller owns the child: use it as a context manager. Its standard streams are the caller's.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = nursery.birth(theirs) or _start(theirs)
    child = Child(process, Wire(ours), f"{function.__qualname__} in process {process.pid}")
    child.tell(
        {
            "path": sys.path,
            "file": function.__code__.co_filename,
            "name": function.__qualname__,
            "args": args,
        }
    )
    return child


def _start(wire: socket.socket) -> subprocess.Popen[bytes]:
    code = f"from kvferry.testing import process; process.main({wire.fileno()}, {os.getpid()})"
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=[wire.fileno()],
    )


def main(descriptor: int, parent: int) -> None:
    """The child's half of spawn."""
    _die_with(parent)
    wire = Wire(socket.socket(fileno=descriptor))
    call = wire.receive(TIMEOUT)
    sys.path[:] = call["path"]
    adopt(os.environ)
    try:
        function = getattr(_load(Path(call["file"])), call["name"])
        outcome = {"returned": function(Parent(wire), *call["args"])}
    except BaseException:
        outcome = {"raised": traceback.format_exc()}
    with contextlib.suppress(BrokenPipeError):  # the parent may have gone on without the outcome
        wire.send(outcome, TIMEOUT)
    wire.close()
    sys.exit("raised" in outcome)


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have died before the kernel was told.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module
