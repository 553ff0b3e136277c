"""What is under way layer by layer: which keys are read, and which are written."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from kvferry.errors import ClosedError

from .replicate import ReplicateConfig

__all__ = ["Part", "Sessions", "Started", "parts_of"]

Key = str | bytes


class Started(NamedTuple):
    """A key as row of a draft, to be kept as its config wants."""

    draft: Any
    row: int
    config: ReplicateConfig


class Part(NamedTuple):
    """Keys of one draft: their rows there, and where they stand in the caller's list."""

    draft: Any
    rows: list[int]
    at: list[int]


class Sessions:
    """Thread-safe. A key is in it from its session's start to its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: set[Key] = set()
        self._starting: set[Key] = set()
        self._written: dict[Key, Started] = {}

    def read(self, keys: Sequence[Key]) -> None:
        with self._lock:
            self._read.update(keys)

    def end_reads(self, keys: Sequence[Key]) -> None:
        with self._lock:
            self._read.difference_update(keys)

    def reads(self, keys: Sequence[Key]) -> bool:
        """Are all of them read?"""
        return self._read.issuperset(keys)

    @contextmanager
    def starting(self, keys: Sequence[Key]) -> Iterator[list[bool]]:
        """Which of them have no session: nobody else starts one of these in this block, and each
        is told of once."""
        mine: set[Key] = set()
        try:
            with self._lock:
                free = [self._claim(key, mine) for key in keys]
            yield free
        finally:
            with self._lock:
                self._starting -= mine

    def _claim(self, key: Key, mine: set[Key]) -> bool:
        if key in self._written or key in self._starting:
            return False
        self._starting.add(key)
        mine.add(key)
        return True

    def write(self, started: dict[Key, Started]) -> None:
        with self._lock:
            self._written.update(started)

    def written(self, keys: Sequence[Key]) -> list[Started | None]:
        """None: it is not written."""
        return [self._written.get(key) for key in keys]

    def end_writes(self, keys: Sequence[Key]) -> None:
        with self._lock:
            for key in keys:
                self._written.pop(key, None)

    def close(self) -> None:
        """What was written goes."""
        with self._lock:
            started = list(self._written.values())
            self._written.clear()
            self._read.clear()
        for part in parts_of(started):
            with suppress(ClosedError):  # it has gone with its node, or is a parent process's
                part.draft.drop()


def parts_of(found: Sequence[Started | None]) -> list[Part]:
    """Those that are written, by their drafts."""
    parts: dict[int, Part] = {}
    for at, started in enumerate(found):
        if started is not None:
            part = parts.setdefault(id(started.draft), Part(started.draft, [], []))
            part.rows.append(started.row)
            part.at.append(at)
    return list(parts.values())
