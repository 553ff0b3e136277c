"""Open descriptors of segments that are read: counted, and not too many of them."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path

from .disk import Disk
from .segment import path_of

__all__ = ["Handle", "Handles"]

MOST_IDLE = 64


class Handle:
    """A descriptor, open until nobody reads and nobody wants to keep it."""

    def __init__(self, number: int, fd: int) -> None:
        self.number = number
        self.fd = fd
        self.readers = 0
        self.kept = True


class Handles:
    """Thread-safe. Whoever reads a segment that is dropped meanwhile reads on."""

    def __init__(self, folder: Path, direct: int, disk: Disk) -> None:
        self._folder = folder
        self._direct = direct
        self._disk = disk
        self._lock = threading.Lock()
        self._open: OrderedDict[int, Handle] = OrderedDict()  # who was read last comes last

    def take(self, number: int) -> Handle:
        """To be given back. OSError; FileNotFoundError: there is no such segment."""
        with self._lock:
            handle = self._open.get(number)
            if handle is None:
                flags = os.O_RDONLY | os.O_NOFOLLOW | self._direct
                fd = self._disk.open(path_of(self._folder, number), flags, 0)
                handle = self._open[number] = Handle(number, fd)
            self._open.move_to_end(number)
            handle.readers += 1
            return handle

    def give_back(self, handle: Handle) -> None:
        with self._lock:
            handle.readers -= 1
            if not handle.kept and not handle.readers:
                os.close(handle.fd)
            if len(self._open) > MOST_IDLE:
                self._let_go(next(iter(self._open)))

    def forget(self, number: int) -> None:
        """Its file is not there any more."""
        with self._lock:
            if number in self._open:
                self._let_go(number)

    def close(self) -> None:
        with self._lock:
            for number in list(self._open):
                self._let_go(number)

    def _let_go(self, number: int) -> None:
        handle = self._open.pop(number)
        handle.kept = False
        if not handle.readers:
            os.close(handle.fd)
