"""Starts the processes of a run, and ends them whatever happens."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec

from ..errors import PeerError
from .target import ANYWHERE, Job, Ready

__all__ = [
    "Process",
    "Target",
    "hang_up",
    "ready",
    "start_process",
    "start_target",
    "starting_target",
]

END_SECONDS = 5.0

# include/linux/posix-timers.h: the clock of all processor time of process `pid`.
CPUCLOCK_SCHED = 2


class Target(NamedTuple):
    pid: int
    address: str

    @property
    def cpu(self) -> float:
        """Seconds of processor time it has used, in all threads. It is not asked."""
        return time.clock_gettime((~self.pid << 3) | CPUCLOCK_SCHED)


class Process:
    """A process of ours that answers lines with lines.

    In a session of its own, so that an interrupt from the keyboard comes to us alone.

    settings  of its environment, "NAME=value"
    """

    def __init__(self, module: str, name: str, settings: Sequence[str] = ()) -> None:
        self._name = name
        self._process = subprocess.Popen(
            ["env", *settings, sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # what it says, or does not say, tells why
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def hear(self) -> bytes:
        """Its next line. Raises PeerError when there will be none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"the {self._name} process ended without an answer", cause=self._name)
        return line

    def kill(self) -> None:
        """SIGKILL; it is reaped by end."""
        self._process.kill()

    def end(self) -> None:
        """Hang up; it ends by itself, or else is killed."""
        hang_up(self._process)


def hang_up(process: subprocess.Popen[bytes]) -> None:
    """Close its input, which ends it, and reap it; killed when it takes long."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def start_process(module: str, name: str) -> Iterator[Process]:
    """``python -m module``; gone, and reaped, when the block is left."""
    process = Process(module, name)
    try:
        yield process
    finally:
        process.end()


@contextmanager
def start_target(size: int, token: bytes, address: str = ANYWHERE) -> Iterator[Target]:
    """A process of its own with `size` bytes to move, listening at `address`.

    Gone, and reaped, when the block is left. Raises PeerError with its reason when it cannot start.
    """
    with starting_target(size, token, address) as process:
        yield Target(process.pid, ready(process).address)


@contextmanager
def starting_target(size: int, token: bytes, address: str) -> Iterator[Process]:
    """The same before it is ready."""
    with start_process("kvferry.bench.target", "target") as process:
        process.say(msgspec.json.encode(Job(size, token, address)))
        yield process


def ready(target: Process) -> Ready:
    """Block until the target is; once. Raises PeerError with its reason when it cannot start."""
    said = msgspec.json.decode(target.hear(), type=Ready)
    if said.error is not None:
        raise PeerError(f"the target process: {said.error}", cause="target")
    return said
