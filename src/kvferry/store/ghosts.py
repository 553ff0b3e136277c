"""A bounded memory of what is gone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ghosts"]

WAYS = 8


class Ghosts:
    """A word for each of the last fingerprints it was told; 8 bytes each, none grows.

        bucket   | 8 x (print u32, word u32) |   the oldest of a bucket makes way

    A fingerprint that was told again has its newest word. Words are above 0, which stands for
    nothing known. One unknown print in some 10**8 is taken for a known one.
    """

    def __init__(self, count: int) -> None:
        buckets = 1 << max(0, (-(-count // WAYS) - 1).bit_length())
        self._mask = np.uint64(buckets - 1)
        self._prints = np.zeros((buckets, WAYS), np.uint32)
        self._words = np.zeros((buckets, WAYS), np.uint32)
        self._oldest = np.zeros(buckets, np.uint8)

    def tell(self, prints: NDArray[np.uint64], words: NDArray[np.uint32]) -> None:
        """Remember a word for each; of a print that occurs twice the later one counts."""
        # np.unique keeps the first of each, so the order is turned round.
        prints, first = np.unique(prints[::-1], return_index=True)
        words = words[::-1][first]
        buckets, tags = self._where(prints)
        known, way = self._find(buckets, tags)
        if known.any():
            self._words[buckets[known], way[known]] = words[known]
            new = ~known
            buckets, tags, words = buckets[new], tags[new], words[new]
        self._add(buckets, tags, words)

    def recall(self, prints: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """The word of each, 0 where nothing is known."""
        buckets, tags = self._where(prints)
        known, way = self._find(buckets, tags)
        return np.where(known, self._words[buckets, way], 0).astype(np.uint32)

    def _where(self, prints: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Bucket, and what tells prints of one bucket apart, which is never 0."""
        tags = (prints >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
        return (prints & self._mask).astype(np.int64), tags

    def _find(
        self, buckets: NDArray[np.int64], tags: NDArray[np.uint32]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        same = self._prints[buckets] == tags[:, None]
        return same.any(axis=1), same.argmax(axis=1)

    def _add(
        self,
        buckets: NDArray[np.int64],
        tags: NDArray[np.uint32],
        words: NDArray[np.uint32],
    ) -> None:
        order = np.argsort(buckets, kind="stable")
        buckets, tags, words = buckets[order], tags[order], words[order]
        # The n-th newcomer of a bucket takes the n-th place after the oldest.
        nth = np.arange(len(buckets)) - np.searchsorted(buckets, buckets)
        way = (self._oldest[buckets] + nth) % WAYS
        self._prints[buckets, way] = tags
        self._words[buckets, way] = words
        self._oldest[buckets] = (way + 1) % WAYS
