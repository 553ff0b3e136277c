"""What a batch call answers, key by key, and what a call of one key raises instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ...errors import Error, Full, PeerError, UsageError
from ..answers import Answer, Answers, Kind
from ..table import Words

__all__ = ["Results", "error_of"]

GOOD = np.array([answer.kind is Kind.PRESENT for answer in Answer])


class Results(Sequence[Answer]):
    """One Answer a key, in the order of the keys.

    codes    the same as numbers, u8
    lengths  bytes of each object that was read or stored, or was too large for its buffer; else 0
    replicas  of a put: how many nodes have each, as far as it was asked for; else None
    """

    def __init__(
        self, codes: Answers, lengths: Words, replicas: NDArray[np.uint8] | None = None
    ) -> None:
        self.codes = codes
        self.lengths = lengths
        self.replicas = replicas

    @property
    def present(self) -> NDArray[np.bool_]:
        """Of which keys the object is there, read or stored as was asked."""
        return GOOD[self.codes]

    @property
    def ok(self) -> bool:
        """Is everything there, or done, as was asked?"""
        return bool((self.codes <= Answer.REMOVED).all())

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> list[Answer]: ...
    def __getitem__(self, index: int | slice) -> Answer | list[Answer]:
        if isinstance(index, slice):
            return [Answer(code) for code in self.codes[index].tolist()]
        return Answer(int(self.codes[index]))

    def __iter__(self) -> Iterator[Answer]:
        return map(Answer, self.codes.tolist())

    def __repr__(self) -> str:
        kinds, counts = np.unique(self.codes, return_counts=True)
        said = ", ".join(
            f"{count} {Answer(kind).name}"
            for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)
        )
        return f"<Results of {len(self)}: {said}>"


_TEXTS = {
    Answer.TOO_LARGE: "the value is larger than the pool",
    Answer.FULL: "all bytes of the pool belong to writers, or to readers of what has left",
    Answer.LEASED: "the pool is full of objects with a lease, which will end",
    Answer.PINNED: "the pool is full of pinned objects",
    Answer.FRAGMENTED: "enough bytes of the pool are free, but not next to each other",
    Answer.INDEX_FULL: "no entry of the index is free for this key",
    Answer.LATE: "the extent was taken back while it was written",
    Answer.UNKNOWN: "the node does not know this user any more",
    Answer.DRAINING: "the node takes nothing in any more",
    Answer.TOO_SMALL: "the destination is smaller than the object",
    Answer.BUSY: "as many reads are under way, or views held, as one user may have",
    Answer.CHANGING: "the object left and came back again and again while it was read",
    Answer.CORRUPT: "the index names bytes that are not there",
    Answer.NODE_GONE: "the node is gone",
}

_MISTAKES = {Answer.TOO_LARGE, Answer.TOO_SMALL}
_GONE = {Answer.NODE_GONE, Answer.UNKNOWN, Answer.LATE, Answer.CORRUPT, Answer.CHANGING}


def error_of(answer: Answer, node: str | None) -> Error:
    """What a call of one key raises for this answer."""
    kind = UsageError if answer in _MISTAKES else PeerError if answer in _GONE else Full
    return kind(
        _TEXTS[answer],
        cause=answer.name.lower(),
        peer=node,
        safe_to_retry=answer.safe_to_retry,
    )
