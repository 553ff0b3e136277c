"""What callers pass to a transfer beside addresses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import msgspec

from kvferry.errors import UsageError

__all__ = ["TransferNotify", "TransferOpcode"]


class TransferOpcode(IntEnum):
    """Whose memory is the source: the target's, or ours. The capital names are aliases."""

    Read = 0
    Write = 1
    READ = 0
    WRITE = 1

    def __str__(self) -> str:
        return f"TransferOpcode.{self.name}"


@dataclass
class TransferNotify:
    """A message that arrives after the bytes of the transfer it goes with."""

    name: str = ""
    msg: str = ""

    def encode(self) -> bytes:
        """Raises TypeError for what is no text, UsageError for text that has no encoding."""
        if not (isinstance(self.name, str) and isinstance(self.msg, str)):
            raise TypeError(f"{self!r}: name and msg are str")
        try:
            return msgspec.msgpack.encode((self.name, self.msg))
        except UnicodeEncodeError as error:
            raise UsageError(f"a notify: {error}", cause="not_text") from None

    @classmethod
    def decode(cls, message: bytes) -> TransferNotify:
        """Raises msgspec.DecodeError for what `encode` did not make."""
        return cls(*msgspec.msgpack.decode(message, type=tuple[str, str]))
