"""Where values go that a codec makes again of what was stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import Buffer

from ..answers import Answer
from ..codecs.codec import Codec
from .found import Found

__all__ = ["Copies", "Decoding", "Into", "octets"]


class Decoding(ABC):
    """One call of so many keys. What was stored is let go of when `take` returns.

    found  FOUND, TOO_SMALL, CORRUPT and the bytes of the value, for each that was taken; the rest
           is the reader's to say
    """

    def __init__(self, codec: Codec, count: int) -> None:
        self.found = Found.all(count, Answer.ABSENT)
        self._codec = codec

    def take(self, at: int, stored: Buffer) -> None:
        """This was stored for key `at`."""
        answers, lengths = self.found
        opened = self._codec.open(stored)
        if opened is None:
            answers[at] = Answer.CORRUPT
            return
        lengths[at] = opened.length
        target = self._target(at, opened.length)
        if target is None:
            answers[at] = Answer.TOO_SMALL
        else:
            good = self._codec.decode(opened, target)
            answers[at] = Answer.FOUND if good else Answer.CORRUPT

    @abstractmethod
    def _target(self, at: int, length: int) -> memoryview | None:
        """For so many bytes of value `at`; None: there is not so much."""


class Into(Decoding):
    """To the beginning of the callers' buffers."""

    def __init__(self, codec: Codec, outs: Sequence[Any]) -> None:
        super().__init__(codec, len(outs))
        self._outs = outs

    def _target(self, at: int, length: int) -> memoryview | None:
        out = octets(self._outs[at])
        return out[:length] if length <= len(out) else None


class Copies(Decoding):
    """Memory that is made when they are found."""

    def __init__(self, codec: Codec, count: int) -> None:
        super().__init__(codec, count)
        self._made = [bytearray()] * count

    def _target(self, at: int, length: int) -> memoryview:
        made = self._made[at] = bytearray(length)
        return memoryview(made)

    def copies(self) -> list[bytes | None]:
        """Of what was found."""
        there = (self.found.answers == Answer.FOUND).tolist()
        return [bytes(made) if good else None for made, good in zip(self._made, there, strict=True)]


def octets(buffer: Any) -> memoryview:
    """A contiguous buffer, whatever it holds, as its bytes."""
    if not memoryview(buffer).nbytes:
        return memoryview(bytearray())
    return memoryview(np.frombuffer(buffer, np.uint8))
