"""The face of every eviction policy: who leaves first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Held", "Policy", "Slots"]

Slots: TypeAlias = NDArray[np.int64]
Held: TypeAlias = Callable[[Slots], NDArray[np.bool_]]


class Policy(ABC):
    """An order of leaving over slot numbers 0 to `slots`, in arrays alone; knows no clock.

    `print` is a fingerprint of what a slot holds, by which a policy may know it again. `parent` is
    the slot of the object without which this one is of no use, or its own slot if there is none.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.sizes = np.zeros(slots, np.int64)
        self.count = 0
        self.bytes = 0

    def insert(
        self,
        slots: Slots,
        sizes: NDArray[np.int64],
        prints: NDArray[np.uint64],
        parents: Slots | None = None,
    ) -> None:
        """Take in slots that hold something new, each once."""
        self.sizes[slots] = sizes
        self.count += len(slots)
        self.bytes += int(sizes.sum())
        self._insert(slots, prints, slots if parents is None else parents)

    def remove(self, slots: Slots) -> None:
        """Forget slots, each once, that hold nothing any more."""
        self._left(slots)
        self._remove(slots)

    def victims(self, needed: int, held: Held) -> Slots:
        """Slots of at least `needed` bytes, or all there are, in the order of leaving.

        They have left the policy on return. Those that `held` says may not leave stay.
        """
        out = self._victims(needed, held)
        self._left(out)
        return out

    @abstractmethod
    def touch(self, slots: Slots) -> None:
        """These slots were used, in this order; a slot may occur more than once."""

    @abstractmethod
    def members(self) -> Slots:
        """Every slot it holds, in no order."""

    @abstractmethod
    def first(self, slots: Slots) -> Slots:
        """The one of these slots that would leave first; none, if none of them may leave yet."""

    def blocked(self, slots: Slots) -> NDArray[np.bool_]:
        """Which of them may not leave yet, because others would have to leave before."""
        return self.kin(slots)[1] > 0

    def kin(self, slots: Slots) -> tuple[Slots, Slots]:
        """The parent of each, its own slot if there is none; and how many children it has."""
        return slots, np.zeros(len(slots), np.int64)

    @abstractmethod
    def _insert(self, slots: Slots, prints: NDArray[np.uint64], parents: Slots) -> None: ...

    @abstractmethod
    def _remove(self, slots: Slots) -> None: ...

    @abstractmethod
    def _victims(self, needed: int, held: Held) -> Slots: ...

    def _about(self, needed: int, turn: int) -> int:
        """How many slots to look at for so many bytes, at each turn more: all may have to stay."""
        return (needed * self.count // max(self.bytes, 1) + 1) << min(turn, 8)

    def _left(self, slots: Slots) -> None:
        self.count -= len(slots)
        self.bytes -= int(self.sizes[slots].sum())
