"""Which unit of which connection goes wrong, and how units are cut out of a stream. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...engine import messages
from ...errors import PeerError
from ...rpc import LIMIT
from ...rpc.wire import HEADER_SIZE, Kind

__all__ = ["HANDSHAKE", "Case", "Cutter", "Way", "purpose_of"]

HANDSHAKE = 2  # units of it, either way


class Way(Enum):
    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


@dataclass(frozen=True, slots=True)
class Case:
    """`mutation`, drawn from `seed`, of the unit with this number, on the first connection for
    `purpose` that has so many. Units count from 0, either way."""

    mutation: str
    seed: int
    way: Way
    unit: int
    purpose: str = messages.CONTROL

    def strikes(self, way: Way, unit: int, purpose: str) -> bool:
        return (self.way, self.unit, self.purpose) == (way, unit, purpose)


class Cutter:
    """Cuts units out of a stream. Pure.

    framed  settable; while it is set, units are whole frames as rpc/wire.py draws them
    """

    def __init__(self) -> None:
        self.framed = True
        self._rest = b""

    def feed(self, data: bytes) -> None:
        self._rest += data

    def next(self) -> bytes | None:
        """The next unit; None when more must be fed first."""
        size = self._size()
        if size is None or not self._rest:
            return None
        unit, self._rest = self._rest[:size], self._rest[size:]
        return unit

    def rest(self) -> bytes:
        """What is no unit yet, and now never will be."""
        rest, self._rest = self._rest, b""
        return rest

    def _size(self) -> int | None:
        if not self.framed:
            return len(self._rest)
        if len(self._rest) < HEADER_SIZE:
            return None
        length = int.from_bytes(self._rest[:4], "little")
        if length > LIMIT or self._rest[4] not in list(Kind):
            return len(self._rest)
        whole = HEADER_SIZE + length
        return whole if whole <= len(self._rest) else None


def purpose_of(hello: bytes) -> str:
    """What the first unit of a connection says it is for; "?" when it does not say."""
    try:
        said = messages.decode(hello[HEADER_SIZE:])
    except PeerError:
        said = None
    return said.purpose if isinstance(said, messages.Hello) else "?"
