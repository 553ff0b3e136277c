"""Starts a process of a pair, asks it, and ends it whatever happens."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import numpy as np

from ...errors import PeerError, UsageError
from ..launch import hang_up
from .messages import Answer

__all__ = ["Named", "Process", "code_of", "start_process"]

T = TypeVar("T")

HOMES = ("", ".bench", ".bench.paged", ".bench.peers", ".bench.store")
PACKAGES = tuple(f"kvferry{home}" for home in HOMES)


class Named(Protocol):
    """A package, the Python that has it, and what pip calls it."""

    @property
    def name(self) -> str: ...
    @property
    def python(self) -> str: ...
    @property
    def install(self) -> str: ...


def code_of(worker: str) -> str:
    """Runs the module `worker` in a Python that need not be ours.

    Makes the packages without running what is in them: a Python of another version cannot load our
    native module, and the processes of a pair have no use for it.
    """
    return f"""
import sys, types
_, name, root, *homes = sys.argv
sys.path += homes
for package in {PACKAGES}:
    sys.modules[package] = types.ModuleType(package)
    sys.modules[package].__path__ = ["/".join([root, *package.split(".")])]
from {worker} import main
main(name)
"""


PAIR = code_of("kvferry.bench.peers.worker")

LAST_WORDS = 3  # lines


class Process:
    """Answers requests. What it and its package print is kept, and shown when it fails.

    In a session of its own, so that an interrupt from the keyboard comes to us alone.
    """

    def __init__(self, asked: Named, role: str, code: str = PAIR) -> None:
        self._asked = asked
        self._name = f"the {role} of {asked.name}"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end
        try:
            self._process = subprocess.Popen(
                [asked.python, "-c", code, asked.name, *_homes()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise UsageError(f"peer {asked.name}: {error}", cause="peer") from None

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, request: msgspec.Struct) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # what it answers, or does not, tells why
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()

    def hear(self, kind: type[T]) -> T:
        """Its answer. Raises UsageError where the package is missing, PeerError when it failed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise self._failed(f"ended with status {status}")
        answer = msgspec.json.decode(line, type=Answer)
        if answer.absent:
            raise UsageError(
                f"peer {self._asked.name}: {self._asked.python} cannot import it "
                f"({answer.error}): pip install {self._asked.install}, or name another Python: "
                f"{self._asked.name}=/path/of/python",
                cause="peer",
            )
        if answer.error is not None:
            raise self._failed(f"failed: {answer.error}")
        return msgspec.json.decode(answer.value, type=kind)

    def ask(self, request: msgspec.Struct, kind: type[T]) -> T:
        self.say(request)
        return self.hear(kind)

    def end(self) -> None:
        """Hang up; it ends by itself, or else is killed."""
        try:
            hang_up(self._process)
        finally:
            self._log.close()

    def _failed(self, what: str) -> PeerError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        last = " / ".join([line.strip() for line in lines if line.strip()][-LAST_WORDS:])
        said = f"; its last words: {last}" if last else ""
        return PeerError(f"{self._name} {what}{said}", cause="peer")


@contextmanager
def start_process(asked: Named, role: str, code: str = PAIR) -> Iterator[Process]:
    """Gone, and reaped, when the block is left."""
    process = Process(asked, role, code)
    try:
        yield process
    finally:
        process.end()


def _homes() -> list[str]:
    """Where kvferry, msgspec and NumPy are: looked at last, for what the other Python lacks."""
    root = Path(__file__).parents[3]
    others = (Path(module.__file__ or "").parents[1] for module in (msgspec, np))
    return [str(root), *dict.fromkeys(str(home) for home in others)]
