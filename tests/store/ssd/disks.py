"""Disks that fail, or end the process, at a step: a call that changes a folder."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from typing_extensions import Buffer

__all__ = ["Faulty", "NoDirect", "Torn", "die", "refuse"]

Fault = Callable[[int, str], None]  # number and name of a step: may raise, or never come back


class Faulty:
    """The os module's functions; `fault` is asked before each, and after the last one was done."""

    def __init__(self, fault: Fault = lambda step, name: None) -> None:
        self.fault = fault
        self.steps = 0
        self.names: list[str] = []

    def _step(self, name: str) -> None:
        self.names.append(name)
        self.steps += 1
        self.fault(self.steps - 1, name)

    def open(self, path: Path, flags: int, mode: int, /) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            self._step("open")
        return os.open(path, flags, mode)

    def pwrite(self, fd: int, data: Buffer, at: int, /) -> int:
        self._step("pwrite")
        return os.pwrite(fd, data, at)

    def fdatasync(self, fd: int, /) -> None:
        self._step("fdatasync")

    def fsync(self, fd: int, /) -> None:
        self._step("fsync")

    def ftruncate(self, fd: int, length: int, /) -> None:
        self._step("ftruncate")
        os.ftruncate(fd, length)

    def rename(self, old: Path, new: Path, /) -> None:
        self._step("rename")
        os.rename(old, new)

    def unlink(self, path: Path, /) -> None:
        self._step("unlink")
        os.unlink(path)


class NoDirect(Faulty):
    """A file system that knows no O_DIRECT."""

    def open(self, path: Path, flags: int, mode: int, /) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "no O_DIRECT here")
        return super().open(path, flags, mode)


class Torn(Faulty):
    """Ends the process within the write that is step `at`: some bytes of it are there."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def pwrite(self, fd: int, data: Buffer, at: int, /) -> int:
        if self.steps == self.at:
            part = memoryview(data)[: len(memoryview(data)) // 2 // 4096 * 4096]
            os.pwrite(fd, part, at)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().pwrite(fd, data, at)


def die(at: int) -> Fault:
    """The process ends before step `at`."""

    def fault(step: int, name: str) -> None:
        if step == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return fault


def refuse(error: int, at: int, until: int | None = None) -> Fault:
    """Steps from `at` to before `until`, or that one alone, are refused."""

    def fault(step: int, name: str) -> None:
        if at <= step < (at + 1 if until is None else until):
            raise OSError(error, os.strerror(error))

    return fault
