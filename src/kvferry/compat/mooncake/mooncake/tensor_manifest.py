"""What is stored beside the parts of a tensor, so that a reader can name all of them.

    offset  type
       0    u32     magic "NAMW"
       4    u16     version, 1
       6    u16     bytes of this manifest, 96
       8    i32     element type
      12    i32     dimensions, 1 to 8
      16    i32     split dimension
      20    i32     parts
      24    u64     0
      32    i64[8]  shape of the whole tensor, -1 beyond its dimensions

Little endian; Mooncake's own layout. Some writers store none: then a part's own header tells.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from .parallelism import RANKS, Axis
from .tensor_header import DIMENSIONS, DTYPES, DType, Header, padded, shape_of

__all__ = ["Manifest", "parallelism_manifest", "writer_manifest"]

MAGIC = 0x574D414E
VERSION = 1
LAYOUT = struct.Struct("<IHHiiiiQ8q")


def parallelism_manifest(key: str) -> str:
    return f"{key}__parallelism_manifest"


def writer_manifest(key: str) -> str:
    return f"{key}__writer_manifest"


class Manifest(NamedTuple):
    """How the tensor of a key was cut."""

    dtype: DType
    whole: tuple[int, ...]
    split_dim: int
    parts: int

    @classmethod
    def of(cls, header: Header, axis: Axis) -> Manifest:
        assert axis.split_dim is not None
        return cls(header.dtype, header.whole, axis.split_dim, axis.size)

    def encode(self) -> bytes:
        return LAYOUT.pack(
            MAGIC,
            VERSION,
            LAYOUT.size,
            self.dtype.code,
            len(self.whole),
            self.split_dim,
            self.parts,
            0,
            *padded(self.whole),
        )

    @classmethod
    def decode(cls, stored: memoryview) -> Manifest:
        """Raises ValueError for what is none."""
        if len(stored) != LAYOUT.size:
            raise ValueError(f"{len(stored)} bytes are no manifest")
        magic, version, size, code, ndim, dim, parts, _, *whole = LAYOUT.unpack(stored)
        if (magic, version, size) != (MAGIC, VERSION, LAYOUT.size):
            raise ValueError("not a manifest")
        if not (0 <= code < len(DTYPES) and 0 < ndim <= DIMENSIONS and 0 <= dim < ndim):
            raise ValueError("a manifest of an unknown kind")
        if not 0 < parts <= RANKS:
            raise ValueError(f"a manifest of {parts} parts")
        return cls(DTYPES[code], shape_of(whole, ndim), dim, parts)
