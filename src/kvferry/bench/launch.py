"""Starts the target process, and ends it whatever happens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec

from ..errors import PeerError
from .target import Job, Ready

__all__ = ["Target", "start_target"]

END_SECONDS = 5.0


class Target(NamedTuple):
    pid: int
    address: str


@contextmanager
def start_target(size: int, token: bytes) -> Iterator[Target]:
    """A process of its own with `size` bytes to move; gone, and reaped, when the block is left.

    In a session of its own, so that an interrupt from the keyboard comes to us alone. Raises
    PeerError with its reason when it cannot start.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "kvferry.bench.target"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        ready = _ask(process, Job(size, token))
        if ready.error is not None:
            raise PeerError(f"the target process: {ready.error}", cause="target")
        yield Target(process.pid, ready.address)
    finally:
        _end(process)


def _ask(process: subprocess.Popen[bytes], job: Job) -> Ready:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # what it says, or does not say, tells why
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise PeerError("the target process ended before it was ready", cause="target")
    return msgspec.json.decode(line, type=Ready)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Hang up; it ends by itself, or else is killed."""
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
