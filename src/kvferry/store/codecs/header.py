"""What each stored value begins with, so that nothing is taken for what it is not.

    | magic 4 | version u8 | codec u8 | 0 u16 | length u64 | parameters 12 | crc32c u32 | payload

little endian. The length is that of the value; `parameters` is a digest over all that the codec was
made with; the checksum is over what stands before it and over the payload.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from typing_extensions import Buffer

from ..._core import crc32c

__all__ = ["HEADER", "PARAMETERS", "VERSION", "Header", "read_header", "sealed", "write_header"]

MAGIC = b"KVFc"
VERSION = 1
HEADER = 32  # bytes
PARAMETERS = 12

FORM = struct.Struct(f"<4sBBHQ{PARAMETERS}s")
CHECKSUM = struct.Struct("<I")


class Header(NamedTuple):
    codec: int
    raw: int
    parameters: bytes


def write_header(header: Header, stored: bytearray) -> None:
    """At the beginning of `stored`, whose payload is in its place behind it."""
    codec, raw, parameters = header
    FORM.pack_into(stored, 0, MAGIC, VERSION, codec, 0, raw, parameters)
    CHECKSUM.pack_into(stored, FORM.size, _checksum(memoryview(stored)))


def read_header(stored: memoryview) -> Header | None:
    """None: it is none of this version. Nothing is known of the checksum."""
    if len(stored) < HEADER:
        return None
    magic, version, codec, spare, raw, parameters = FORM.unpack_from(stored)
    if (magic, version, spare) != (MAGIC, VERSION, 0):
        return None
    return Header(codec, raw, parameters)


def sealed(stored: memoryview) -> bool:
    """Does the checksum fit?"""
    (checksum,) = CHECKSUM.unpack_from(stored, FORM.size)
    return bool(checksum == _checksum(stored))


def _checksum(stored: Buffer) -> int:
    view = memoryview(stored)
    return crc32c(view[HEADER:], crc32c(view[: FORM.size]))
