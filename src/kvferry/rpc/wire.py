"""Frames: how messages are cut out of a byte stream. Pure: no socket, no thread, no clock.

    0        4      5     6       8                16        16 + length
    +--------+------+-----+-------+----------------+----------------+
    | length | kind | fds | zero  |    call id     |      body      |     little-endian
    |  u32   |  u8  | u8  |  u16  |      u64       |  length bytes  |
    +--------+------+-----+-------+----------------+----------------+

`fds` descriptors travel beside the bytes, attached to the first byte of their frame. A reply
bears the call id of its request; the ids of the two directions have nothing to do with each other.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from ..errors import PeerError

__all__ = ["HEADER_SIZE", "MAX_FDS", "Decoder", "Frame", "Kind", "encode"]

MAX_FDS = 16

_HEADER = struct.Struct("<IBBHQ")
HEADER_SIZE = _HEADER.size
_FDS_OFFSET = 5

# How records of TLS begin, for those who meet them where frames should be: a client's first, and a
# server's refusal.
TLS_HELLO = b"\x16\x03"
TLS_ALERTS = (b"\x15\x03\x01", b"\x15\x03\x03")


class Kind(IntEnum):
    """What a frame is. The body of a FAILURE is UTF-8 text that says why the handler failed."""

    REQUEST = 1
    REPLY = 2
    FAILURE = 3


_KINDS = {kind.value: kind for kind in Kind}


class Frame(NamedTuple):
    """One message; `fds` is how many descriptors belong to it."""

    kind: Kind
    call: int
    fds: int
    body: bytes


def encode(kind: Kind, call: int, body: bytes, fds: int = 0) -> bytes:
    """The bytes of one frame."""
    return _HEADER.pack(len(body), kind, fds, 0, call) + body


class Decoder:
    """Cuts frames out of what is fed to it. A header is checked before its body is kept.

    limit   bytes a body may have; may be changed at any time and counts for headers read later
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = bytearray()  # of an unfinished frame, from its header on

    @property
    def claim(self) -> int:
        """The most descriptors that the unfinished frame may own; 0 between frames."""
        if len(self._rest) >= HEADER_SIZE:
            return self._rest[_FDS_OFFSET]
        return MAX_FDS if self._rest else 0

    @property
    def amid(self) -> bool:
        """True when a frame has begun and not ended."""
        return bool(self._rest)

    @property
    def alerted(self) -> bool:
        """True when all that came is how a TLS server refuses who does not speak it."""
        return self._rest.startswith(TLS_ALERTS)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes. Raises PeerError(cause="protocol"), which is final."""
        if not self._rest:
            frames, used = self._cut(data)
            if used < len(data):
                self._rest += data[used:]
            return frames
        self._rest += data
        frames, used = self._cut(self._rest)
        del self._rest[:used]
        return frames

    def _cut(self, data: bytes | bytearray) -> tuple[list[Frame], int]:
        """The whole frames at the front of `data`, and how many bytes they are."""
        frames: list[Frame] = []
        at = 0
        while len(data) - at >= HEADER_SIZE:
            length, kind, fds, zero, call = _HEADER.unpack_from(data, at)
            if kind not in _KINDS or length > self.limit or fds > MAX_FDS or zero:
                raise self._violation(length, kind, fds, zero)
            begin = at + HEADER_SIZE
            if begin + length > len(data):
                break
            at = begin + length
            frames.append(Frame(_KINDS[kind], call, fds, bytes(data[begin:at])))
        return frames, at

    def _violation(self, length: int, kind: int, fds: int, zero: int) -> PeerError:
        if length.to_bytes(4, "little").startswith(TLS_HELLO):
            return PeerError("the peer speaks TLS, and this engine does not", cause="tls")
        if kind not in _KINDS:
            what = f"unknown frame kind {kind}"
        elif length > self.limit:
            what = f"a body of {length} bytes is above the limit of {self.limit}"
        elif fds > MAX_FDS:
            what = f"{fds} descriptors in one frame, {MAX_FDS} at most"
        else:
            what = f"the reserved field is {zero:#x}, not 0"
        return PeerError(what, cause="protocol")
