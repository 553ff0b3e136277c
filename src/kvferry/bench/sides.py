"""The two sides of a run: memory here, and memory of the target process, asked by calls."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec
import numpy as np

from ..engine import Channel, Engine
from ..memory import Region
from . import verify
from .verify import Landing, Verdict

__all__ = ["Here", "Side", "There", "serve_side"]

# A side of many GiB is gone through by one thread.
CALL_TIMEOUT = 600.0


class Check(msgspec.Struct, frozen=True):
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

    @abstractmethod
    def cpu(self) -> float:
        """Seconds of processor time its process has used, in all threads."""


class Here(Side):
    """A region of this process. Exports no buffer of it between calls."""

    def __init__(self, region: Region) -> None:
        self._region = region

    def fill(self, seed: int) -> None:
        verify.fill(self._words(), seed)

    def poison(self) -> None:
        verify.poison(self._words())

    def check(self, landings: Sequence[Landing], seed: int) -> Verdict:
        return verify.check(self._words(), landings, seed)

    def cpu(self) -> float:
        return time.process_time()

    def _words(self) -> verify.Words:
        return np.frombuffer(self._region, np.uint64)


class There(Side):
    """The region of the process at the other end of a channel that serves its side."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def fill(self, seed: int) -> None:
        self._call("fill", msgspec.msgpack.encode(seed))

    def poison(self) -> None:
        self._call("poison", b"")

    def check(self, landings: Sequence[Landing], seed: int) -> Verdict:
        request = msgspec.msgpack.encode(Check(list(landings), seed))
        return msgspec.msgpack.decode(self._call("check", request), type=Verdict)

    def cpu(self) -> float:
        return msgspec.msgpack.decode(self._call("cpu", b""), type=float)

    def _call(self, service: str, request: bytes) -> bytes:
        return self._channel.call(service, request, CALL_TIMEOUT)


def serve_side(engine: Engine, side: Side) -> None:
    """Answer what There asks."""

    def fill(request: bytes) -> bytes:
        side.fill(msgspec.msgpack.decode(request, type=int))
        return b""

    def poison(request: bytes) -> bytes:
        side.poison()
        return b""

    def check(request: bytes) -> bytes:
        asked = msgspec.msgpack.decode(request, type=Check)
        return msgspec.msgpack.encode(side.check(asked.landings, asked.seed))

    def cpu(request: bytes) -> bytes:
        return msgspec.msgpack.encode(side.cpu())

    for service in (fill, poison, check, cpu):
        engine.serve(service.__name__, service)
