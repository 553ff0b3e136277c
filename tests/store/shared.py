"""Leases in shared memory for catalogs under test: a dict or native ones, and what users do to them
in the middle of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvferry._core import Index, SharedLeases, leases_bytes
from kvferry.store.table import Ints

__all__ = ["POINTS", "Interrupted", "Words", "words_for"]

# Of a sweep: it has begun; who is held was looked at; before and after words are cleared; it ends.
POINTS = ("begun", "looked", "clears", "cleared", "ends")


class Words(Protocol):
    def raise_to(self, slot: int, until: int) -> None: ...
    def word(self, slot: int) -> int: ...
    def begin(self) -> None: ...
    def end(self) -> None: ...
    def held(self, slots: Ints, now: int, longest: int) -> NDArray[np.bool_]: ...
    def clear(self, slots: Ints) -> None: ...


class DictWords:
    def __init__(self) -> None:
        self._words: dict[int, int] = {}

    def raise_to(self, slot: int, until: int) -> None:
        self._words[slot] = max(self.word(slot), until)

    def word(self, slot: int) -> int:
        return self._words.get(slot, 0)

    def begin(self) -> None:
        return

    def end(self) -> None:
        return

    def held(self, slots: Ints, now: int, longest: int) -> NDArray[np.bool_]:
        return np.array([self.word(slot) > now for slot in slots.tolist()], np.bool_)

    def clear(self, slots: Ints) -> None:
        for slot in slots.tolist():
            self._words.pop(slot, None)


class NativeWords:
    def __init__(self, index: Index) -> None:
        self._words = np.zeros(leases_bytes(index.capacity) // 8, np.uint64)
        self._shared = SharedLeases(index, self._words.ctypes.data, self._words.nbytes)

    def raise_to(self, slot: int, until: int) -> None:
        self._words[slot] = max(self.word(slot), until)

    def word(self, slot: int) -> int:
        return int(self._words[slot])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared, name)


def words_for(index: Any) -> Any:
    return NativeWords(index) if isinstance(index, Index) else DictWords()


class Interrupted:
    """Words that are changed in the middle of the next sweep, wherever `at` says. Whoever leaves
    was found free in the same sweep."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self._free: set[int] | None = None  # as far as was looked in this sweep
        self._at: dict[str, list[Callable[[], None]]] = {point: [] for point in POINTS}

    def at(self, point: str, do: Callable[[], None]) -> None:
        self._at[point].append(do)

    def _reach(self, point: str) -> None:
        now, self._at[point] = self._at[point], []
        for do in now:
            do()

    def begin(self) -> None:
        assert self._free is None, "a sweep in a sweep"
        self._free = set()
        self.words.begin()
        self._reach("begun")

    def end(self) -> None:
        self._reach("ends")
        self.words.end()
        self._free = None

    def held(self, slots: Ints, now: int, longest: int) -> NDArray[np.bool_]:
        held = self.words.held(slots, now, longest)
        if self._free is not None:
            self._free |= set(slots[~held].tolist())
        self._reach("looked")
        return held

    def clear(self, slots: Ints) -> None:
        assert self._free is not None, "it leaves outside of a sweep"
        assert set(slots.tolist()) <= self._free, "nobody looked whether it is leased"
        self._reach("clears")
        self.words.clear(slots)
        self._reach("cleared")
