"""What came and went at a node, until the herald has told it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..answers import Cause, Digests
from ..table import Entries
from .messages import REMOVED

__all__ = ["Changes", "Journal", "wanted_of"]

MOST = 1 << 20  # keys that wait, 17 bytes each; beyond, all is told anew

# The low bits of an object's attrs: how many nodes should have it; 0: nobody said, one is enough.
COPIES = np.uint64(0xF)


class Changes(NamedTuple):
    """In order. wanted: of how many nodes that should have the key this is one; 0: it went;
    REMOVED: it went since somebody removed it."""

    digests: Digests
    wanted: NDArray[np.uint8]

    @classmethod
    def of(cls, parts: list[Changes]) -> Changes:
        if not parts:
            return cls(np.zeros((0, 2), np.uint64), np.zeros(0, np.uint8))
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class Journal:
    """A witness of a catalog. Thread-safe; nobody waits for more than a list to be handed over.

    tell   called with the catalog's lock when there is something
    noted  rows so far, of all that was ever noted
    """

    def __init__(self, tell: Callable[[], None], most: int = MOST) -> None:
        self._tell = tell
        self._most = most
        self.noted = 0
        self._lock = threading.Lock()
        self._parts: list[Changes] = []
        self._count = 0
        self._lost = False

    def came(self, entries: Entries) -> None:
        self._note(Changes(np.array(entries["digest"]), wanted_of(entries)))

    def left(self, entries: Entries, cause: Cause) -> None:
        code = REMOVED if cause is Cause.REMOVED else 0
        self._note(Changes(np.array(entries["digest"]), np.full(len(entries), code, np.uint8)))

    def take(self) -> Changes | None:
        """All that there is; None: some was lost, since it was more than is kept."""
        with self._lock:
            parts, self._parts, self._count = self._parts, [], 0
            lost, self._lost = self._lost, False
        return None if lost else Changes.of(parts)

    def _note(self, changes: Changes) -> None:
        with self._lock:
            self._parts.append(changes)
            self._count += len(changes.digests)
            self.noted += len(changes.digests)
            if self._count > self._most:
                self._parts, self._count, self._lost = [], 0, True
        self._tell()


def wanted_of(entries: Entries) -> NDArray[np.uint8]:
    """How many nodes should have each of these objects."""
    wanted: NDArray[np.uint8] = np.maximum(entries["attrs"] & COPIES, 1).astype(np.uint8)
    return wanted
