"""What all codecs have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, NamedTuple

from typing_extensions import Buffer

from .header import HEADER, PARAMETERS, VERSION, Header, read_header, sealed, write_header
from .identity import Field, digest_of

__all__ = ["Codec", "Opened"]


class Opened(NamedTuple):
    """A stored value whose header and checksum are right.

    length   bytes of the value
    payload  what it is made from again; a part of what was opened
    """

    length: int
    payload: memoryview


class Codec(ABC):
    """Makes of a value what is stored of it, and a value of that again. Immutable; thread-safe.

    Codecs with the same parameters are equal, and read what the other wrote.
    """

    number: ClassVar[int]  # in headers; never used for another codec

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Which codec this is, of which version, with all its parameters."""
        kind = (("codec", bytes([self.number])), ("version", bytes([VERSION])))
        return (*kind, *((name, value.encode()) for name, value in self.parameters()))

    def encode(self, value: memoryview) -> bytearray:
        """What is stored of it: new memory. Raises UsageError as `check` does, and not_finite.
        Blocks for as long as it takes, most of it without the GIL."""
        self.check(value.nbytes)
        stored = self.pack(value) if value.nbytes else bytearray(HEADER)
        write_header(Header(self.number, value.nbytes, self._parameters), stored)
        return stored

    def open(self, stored: Buffer) -> Opened | None:
        """None: that is not what a codec like this one stored, or not any more."""
        view = memoryview(stored)
        header, payload = read_header(view), view[HEADER:]
        if header is None or header != (self.number, header.raw, self._parameters):
            return None
        right = self.fits(header.raw, len(payload)) if header.raw else not len(payload)
        return Opened(header.raw, payload) if right and sealed(view) else None

    def decode(self, opened: Opened, target: memoryview) -> bool:
        """Fill `target`, of so many bytes, with the value. False: it is not what was stored, and
        what the target holds is unspecified. Blocks, most of it without the GIL."""
        return self.unpack(opened.payload, target) if opened.length else True

    @cached_property
    def _parameters(self) -> bytes:
        return digest_of(self.fields, PARAMETERS, b"kvferry codec")

    # ---- what one codec is ----

    @abstractmethod
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Everything it was made with, by name."""

    @abstractmethod
    def check(self, length: int) -> None:
        """Raises UsageError unless a value may have so many bytes."""

    @abstractmethod
    def fits(self, length: int, payload: int) -> bool:
        """May a value of so many bytes, one at least, have a payload of so many?"""

    @abstractmethod
    def pack(self, value: memoryview) -> bytearray:
        """The payload of a value that is not empty, behind HEADER bytes. Raises UsageError."""

    @abstractmethod
    def unpack(self, payload: memoryview, target: memoryview) -> bool:
        """The way back, into as many bytes as the value has. False: that is no payload of it."""
