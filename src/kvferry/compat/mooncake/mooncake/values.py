"""What callers pass to a transfer beside addresses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import msgspec

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
        return msgspec.msgpack.encode((self.name, self.msg))

    @classmethod
    def decode(cls, message: bytes) -> TransferNotify:
        """Raises msgspec.DecodeError for what `encode` did not make."""
        return cls(*msgspec.msgpack.decode(message, type=tuple[str, str]))
