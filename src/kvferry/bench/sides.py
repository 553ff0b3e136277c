"""The two sides of a run: memory here, and memory of the target process, asked by calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec
import numpy as np

from ..engine import Channel, Engine
from ..memory import Region
from . import verify
from .verify import WORD, Landing, Verdict

__all__ = ["Here", "Side", "There", "serve_side"]

# A side of many GiB is gone through by one thread.
CALL_TIMEOUT = 600.0


class Fill(msgspec.Struct, frozen=True):
    """begin, length  of a slice of the region, in bytes; in all messages"""

    begin: int
    length: int
    seed: int


class Poison(msgspec.Struct, frozen=True):
    begin: int
    length: int


class Check(msgspec.Struct, frozen=True):
    begin: int
    length: int
    landings: list[Landing]
    seed: int


class Side(ABC):
    """What a run asks of whoever owns the memory. Each call blocks while it works."""

    @abstractmethod
    def fill(self, seed: int) -> None:
        """Put the pattern of `seed` all over."""

    @abstractmethod
    def poison(self) -> None: ...

    @abstractmethod
    def check(self, landings: Sequence[Landing], seed: int) -> Verdict:
        """See verify.check."""


class Here(Side):
    """A region of this process, or a slice of it. Exports no buffer of it between calls."""

    def __init__(self, region: Region, begin: int = 0, length: int | None = None) -> None:
        self._region = region
        self._begin = begin
        self._length = region.length - begin if length is None else length

    def slice(self, begin: int, length: int) -> Here:
        return Here(self._region, self._begin + begin, length)

    def fill(self, seed: int) -> None:
        verify.fill(self._words(), seed)

    def poison(self) -> None:
        verify.poison(self._words())

    def check(self, landings: Sequence[Landing], seed: int) -> Verdict:
        return verify.check(self._words(), landings, seed)

    def _words(self) -> verify.Words:
        return np.frombuffer(self._region, np.uint64, self._length // WORD, self._begin)


class There(Side):
    """A slice of the region of the process at the other end of a channel that serves its side."""

    def __init__(self, channel: Channel, begin: int, length: int) -> None:
        self._channel = channel
        self._begin = begin
        self._length = length

    def fill(self, seed: int) -> None:
        self._call("fill", Fill(self._begin, self._length, seed))

    def poison(self) -> None:
        self._call("poison", Poison(self._begin, self._length))

    def check(self, landings: Sequence[Landing], seed: int) -> Verdict:
        request = Check(self._begin, self._length, list(landings), seed)
        return msgspec.msgpack.decode(self._call("check", request), type=Verdict)

    def _call(self, service: str, request: Fill | Poison | Check) -> bytes:
        return self._channel.call(service, msgspec.msgpack.encode(request), CALL_TIMEOUT)


def serve_side(engine: Engine, side: Here) -> None:
    """Answer what There asks."""

    def fill(request: bytes) -> bytes:
        asked = msgspec.msgpack.decode(request, type=Fill)
        side.slice(asked.begin, asked.length).fill(asked.seed)
        return b""

    def poison(request: bytes) -> bytes:
        asked = msgspec.msgpack.decode(request, type=Poison)
        side.slice(asked.begin, asked.length).poison()
        return b""

    def check(request: bytes) -> bytes:
        asked = msgspec.msgpack.decode(request, type=Check)
        verdict = side.slice(asked.begin, asked.length).check(asked.landings, asked.seed)
        return msgspec.msgpack.encode(verdict)

    for service in (fill, poison, check):
        engine.serve(service.__name__, service)
