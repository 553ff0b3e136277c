"""Policies as one would write them down: lists, dicts and loops, one victim at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

Held = Callable[[int], bool]


class NaiveLru:
    def __init__(self) -> None:
        self.line: OrderedDict[int, int] = OrderedDict()

    def insert(self, slot: int, size: int, print_: int, parent: int) -> None:
        self.line[slot] = size

    def touch(self, slot: int) -> None:
        if slot in self.line:
            self.line.move_to_end(slot)

    def remove(self, slot: int) -> None:
        del self.line[slot]

    def victims(self, needed: int, held: Held) -> list[int]:
        out: list[int] = []
        kept: list[tuple[int, int]] = []
        while needed > 0 and self.line:
            slot, size = self.line.popitem(last=False)
            if held(slot):
                kept.append((slot, size))
            else:
                out.append(slot)
                needed -= size
        self.line.update(kept)
        return out


class NaiveS3Fifo:
    def __init__(self) -> None:
        self.small: list[int] = []
        self.main: list[int] = []
        self.sizes: dict[int, int] = {}
        self.prints: dict[int, int] = {}
        self.uses: dict[int, int] = {}
        self.ghosts: list[int] = []

    def insert(self, slot: int, size: int, print_: int, parent: int) -> None:
        self.sizes[slot], self.prints[slot], self.uses[slot] = size, print_, 0
        recent = self.ghosts[-len(self.main) :] if self.main else []
        (self.main if print_ in recent else self.small).append(slot)

    def touch(self, slot: int) -> None:
        if slot in self.sizes:
            self.uses[slot] = min(self.uses[slot] + 1, 3)

    def remove(self, slot: int) -> None:
        (self.small if slot in self.small else self.main).remove(slot)
        del self.sizes[slot]

    def victims(self, needed: int, held: Held) -> list[int]:
        share = max(sum(self.sizes.values()) - needed, 0) // 10
        out: list[int] = []
        for step in (self._small, self._main, self._small, self._main):
            needed = step(needed, share, held, out)
            share = 0
        for slot in out:
            del self.sizes[slot]
        return out

    def _small(self, needed: int, share: int, held: Held, out: list[int]) -> int:
        kept = []
        while needed > 0 and self.small and sum(self.sizes[s] for s in self.small + kept) > share:
            slot = self.small.pop(0)
            if held(slot):
                kept.append(slot)
            elif self.uses[slot] >= 2:
                self.uses[slot] = 0
                self.main.append(slot)
            else:
                out.append(slot)
                self.ghosts.append(self.prints[slot])
                needed -= self.sizes[slot]
        self.small += kept
        return needed

    def _main(self, needed: int, share: int, held: Held, out: list[int]) -> int:
        kept = []
        while needed > 0 and self.main:
            slot = self.main.pop(0)
            if held(slot):
                kept.append(slot)
            elif self.uses[slot]:
                self.uses[slot] -= 1
                self.main.append(slot)
            else:
                out.append(slot)
                needed -= self.sizes[slot]
        self.main += kept
        return needed


class NaivePrefix:
    """Of all leaves the one that was used longest ago, found by looking at all of them."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.parents: dict[int, int | None] = {}
        self.used: dict[int, int] = {}
        self.clock = 0

    def insert(self, slot: int, size: int, print_: int, parent: int) -> None:
        self.sizes[slot] = size
        self.parents[slot] = None if parent == slot else parent
        self._use(slot)

    def touch(self, slot: int) -> None:
        if slot in self.sizes:
            self._use(slot)

    def remove(self, slot: int) -> None:
        del self.sizes[slot], self.parents[slot], self.used[slot]
        for child, parent in self.parents.items():
            if parent == slot:
                self.parents[child] = None

    def victims(self, needed: int, held: Held) -> list[int]:
        out: list[int] = []
        kept: list[int] = []
        while needed > 0:
            inner = set(self.parents.values())
            leaves = [s for s in self.sizes if s not in inner and s not in kept]
            if not leaves:
                break
            slot = min(leaves, key=self.used.__getitem__)
            if held(slot):
                kept.append(slot)
            else:
                out.append(slot)
                needed -= self.sizes[slot]
                self.remove(slot)
        for slot in kept:
            self._use(slot)
        return out

    def _use(self, slot: int) -> None:
        self.clock += 1
        self.used[slot] = self.clock
