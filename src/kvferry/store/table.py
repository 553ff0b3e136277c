"""What a catalog asks of its index, native or a dict."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .answers import Digests

__all__ = ["Entries", "IndexLike", "Ints", "Words", "prints_of"]

Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]

# Rows with the fields generation (0: nobody), digest, offset, length, room, attrs, slot, marked.
Entries: TypeAlias = NDArray[Any]


class IndexLike(Protocol):
    """A table of objects by digest, of fixed size. Every verb takes a batch; slots are int64.

    In the place of a slot stands -1 for no such object, -2 for no free entry, -3 for present.
    """

    @property
    def capacity(self) -> int: ...

    @property
    def count(self) -> int: ...

    def find(self, digests: Digests) -> Ints:
        """Slots of objects that stand and are not marked."""

    def insert(
        self,
        digests: Digests,
        generations: Words,
        offsets: Words,
        lengths: Words,
        rooms: Words,
        attrs: Words,
    ) -> Ints:
        """Slots, or why there is none."""

    def mark(self, slots: Ints, generations: Words) -> NDArray[np.bool_]:
        """From now on readers find these no more."""

    def remove(self, slots: Ints, generations: Words) -> NDArray[np.bool_]:
        """Free the entries of marked objects."""

    def read(self, slots: Ints) -> Entries:
        """What is at each slot."""

    def scan(self, start: int, count: int) -> Entries:
        """All that is in slots `start` and on, of `count` slots."""

    def rivals(self, digests: Digests) -> Ints:
        """(n, k): the slots in one of which each would have to stand."""


def prints_of(digests: Digests) -> Words:
    """What of a digest is remembered when its object is gone."""
    return np.ascontiguousarray(digests[:, 1])
