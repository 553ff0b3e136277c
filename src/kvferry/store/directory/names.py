"""What keys are called, as users told: a table knows digests alone.

slot    digests (2 x u64)   until   seen   name, space
        ...                 ns

`until` a name stays though no node has its key: it was just told, or the key just went. A slot that
was given up is given out again, so where a reader has got to is a number of a slot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..answers import Digests
from ..table import Ints

__all__ = ["LONGEST", "Names", "Page"]

ROWS = 1 << 20
SIZE = 512 << 20  # bytes
ROW = 320  # bytes that a name takes beside its own
GRACE = 5_000_000_000  # ns
LONGEST = 1024  # bytes of a name
AT_ONCE = 1 << 13  # slots looked at in a round
PAGE = 1 << 12  # slots of a page
FIRST = 1 << 10  # slots that there are at first

Known = Callable[[Digests], NDArray[np.bool_]]


class Page(NamedTuple):
    """after: where the next page begins; None: there is none."""

    names: list[bytes]
    after: int | None


class Names:
    """Pure, one thread at a time; `now` is ns of one clock.

    known  which of these some node has
    rows   names at most, and `size` bytes of them; those beyond are dropped, and counted
    """

    def __init__(self, known: Known, rows: int = ROWS, size: int = SIZE) -> None:
        self._known = known
        self._most, self._size = rows, size
        self._slots: dict[bytes, int] = {}  # by digest
        self._free: list[int] = []
        self._told: list[tuple[bytes, bytes] | None] = []  # space and name
        self._digests = np.zeros((FIRST, 2), np.uint64)
        self._until = np.zeros(FIRST, np.int64)
        self._seen = np.zeros(FIRST, np.bool_)  # some node had it at some time
        self._next = 0  # to be looked at
        self.bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._slots)

    def tell(
        self, space: bytes, digests: Digests, names: list[bytes], fresh: bool, now: int
    ) -> None:
        """Keys of one namespace. What a key was first called it stays.

        fresh  they are taken for there, for some time, though no node has told so yet
        """
        raw = digests.tobytes()
        for at, name in enumerate(names):
            digest = raw[16 * at : 16 * at + 16]
            slot = self._slots.get(digest)
            if slot is None:
                slot = self._take(len(name))
                if slot is None:
                    self.dropped += 1
                    continue
                self._slots[digest] = slot
                self._told[slot] = space, name
                self._digests[slot] = digests[at]
                self._seen[slot] = not fresh
            self._until[slot] = now + GRACE

    def of(self, digests: Digests) -> list[bytes | None]:
        """What each is called, as far as somebody told."""
        raw, found = digests.tobytes(), []
        for at in range(0, len(raw), 16):
            slot = self._slots.get(raw[at : at + 16])
            told = None if slot is None else self._told[slot]
            found.append(None if told is None else told[1])
        return found

    def page(self, space: bytes, after: int, now: int) -> Page:
        """Names of one space, of keys that are there. Those that stay are seen once."""
        slots = self._range(after, PAGE)
        there = self._look(slots, now)
        told = (self._told[slot] for slot in slots[there].tolist())
        names = [each[1] for each in told if each is not None and each[0] == space]
        end = after + PAGE
        return Page(names, end if end < len(self._told) else None)

    def sweep(self, now: int) -> None:
        """To be called now and then: forget some of what is nowhere any more."""
        slots = self._range(self._next, AT_ONCE)
        self._next = self._next + AT_ONCE if self._next + AT_ONCE < len(self._told) else 0
        self._look(slots, now)
        for slot in slots[self._until[slots] <= now].tolist():
            self._give_up(slot)

    def figures(self) -> dict[str, int]:
        """dropped: names for which there was no room."""
        return {"names": len(self), "name_bytes": self.bytes, "names_dropped": self.dropped}

    # ---- steps ----

    def _range(self, start: int, count: int) -> Ints:
        """Slots from one on that have a name."""
        end = min(start + count, len(self._told))
        there = [slot for slot in range(start, end) if self._told[slot] is not None]
        return np.array(there, np.int64)

    def _look(self, slots: Ints, now: int) -> NDArray[np.bool_]:
        """Which of them are to be told: some node has them, or none can have said so yet."""
        if not len(slots):
            return np.zeros(0, np.bool_)
        known = self._known(np.ascontiguousarray(self._digests[slots]))
        self._seen[slots] |= known
        self._until[slots[known]] = now + GRACE
        fresh: NDArray[np.bool_] = ~self._seen[slots] & (self._until[slots] > now)
        return known | fresh

    def _take(self, length: int) -> int | None:
        """A slot; None: there is no room."""
        if len(self) >= self._most or self.bytes + ROW + length > self._size:
            return None
        self.bytes += ROW + length
        if self._free:
            return self._free.pop()
        self._told.append(None)
        if len(self._told) > len(self._until):
            self._grow()
        return len(self._told) - 1

    def _grow(self) -> None:
        self._digests = np.concatenate((self._digests, self._digests))
        self._until = np.concatenate((self._until, self._until))
        self._seen = np.concatenate((self._seen, self._seen))

    def _give_up(self, slot: int) -> None:
        told = self._told[slot]
        if told is not None:
            self.bytes -= ROW + len(told[1])
            self._told[slot] = None
            del self._slots[self._digests[slot].tobytes()]
            self._free.append(slot)
