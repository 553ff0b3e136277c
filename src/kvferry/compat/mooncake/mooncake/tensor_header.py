"""What stands before the bytes of a stored tensor.

    offset  type
       0    u32     magic "NOOM"
       4    u16     version, 1
       6    u16     bytes of this header, 304
       8    i32     element type, a place in DTYPES
      12    i32     dimensions, 0 to 8
      16    u32     0: a whole tensor, 1: a shard of one
      20    u32     0
      24    u64     where the elements begin, 304 or more
      32    u64     bytes of the elements, which end where the object ends
      40    i64[8]  shape of the whole tensor, -1 beyond its dimensions
     104    i64[8]  shape of what is stored here, likewise
     168    u32     axes, 0 for a whole tensor
     172    u32     0
     176    axis[4] by which the whole was divided:
                    i32 kind, i32 place, i32 rank, i32 size, i32 split dimension or -1,
                    i32 expert or stage, i64 extent along the split dimension

All little endian; elements row by row. Mooncake's own layout, found by looking at its objects.
"""

from __future__ import annotations

import struct
from math import prod
from typing import NamedTuple

from .parallelism import AXES, KINDS, RANKS, Axis, cut_of

__all__ = [
    "DTYPES",
    "SIZE",
    "DType",
    "Header",
    "dtype_of",
    "padded",
    "place_of",
    "shape_of",
    "spread",
]

SIZE = 304
MAGIC = 0x4D4F4F4E
VERSION = 1
DIMENSIONS = 8

HEAD = struct.Struct("<IHHiiIIQQ8q8qII")
AXIS = struct.Struct("<6iq")


class DType(NamedTuple):
    """An element type, by the name that torch and NumPy give it."""

    code: int
    name: str
    itemsize: int


_NAMES = {
    "float32": 4,
    "float64": 8,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "bool": 1,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
DTYPES = tuple(DType(code, name, size) for code, (name, size) in enumerate(_NAMES.items()))
_BY_NAME = {dtype.name: dtype for dtype in DTYPES}


def dtype_of(name: str) -> DType:
    """Raises ValueError for a type that tensors here do not have."""
    if name not in _BY_NAME:
        raise ValueError(f"elements of type {name} are not stored")
    return _BY_NAME[name]


class Header(NamedTuple):
    """`whole` is the shape of the tensor, `shape` of the part of it that `axes` name."""

    dtype: DType
    whole: tuple[int, ...]
    shape: tuple[int, ...]
    axes: tuple[Axis, ...] = ()
    begin: int = SIZE

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @property
    def tp(self) -> Axis | None:
        """The axis along which the tensor was cut, if it was."""
        return cut_of(self.axes)

    def encode(self) -> bytes:
        """Raises ValueError for more dimensions than there is room for."""
        if len(self.shape) > DIMENSIONS:
            raise ValueError(f"{len(self.shape)} dimensions, and {DIMENSIONS} are stored at most")
        head = HEAD.pack(
            MAGIC,
            VERSION,
            SIZE,
            self.dtype.code,
            len(self.shape),
            bool(self.axes),
            0,
            SIZE,
            self.nbytes,
            *padded(self.whole),
            *padded(self.shape),
            len(self.axes),
            0,
        )
        axes = b"".join(self._axis(place, axis) for place, axis in enumerate(self.axes))
        return (head + axes).ljust(SIZE, b"\0")

    def _axis(self, place: int, axis: Axis) -> bytes:
        dim = -1 if axis.split_dim is None else axis.split_dim
        extent = 0 if axis.split_dim is None else self.shape[axis.split_dim]
        return AXIS.pack(axis.kind, place, axis.rank, axis.size, dim, axis.owner or 0, extent)

    @classmethod
    def decode(cls, stored: memoryview, length: int) -> Header:
        """Of an object of `length` bytes, from the first of them.

        Raises ValueError for what is no tensor; nothing that a header claims is believed unless
        the object is as long as it says.
        """
        if len(stored) < SIZE:
            raise ValueError(f"{len(stored)} bytes are too few for a tensor")
        magic, version, size, code, ndim, shard, _, begin, nbytes, *rest = HEAD.unpack_from(stored)
        if (magic, version, size) != (MAGIC, VERSION, SIZE) or shard > 1:
            raise ValueError("not a tensor")
        if not (0 <= code < len(DTYPES) and 0 <= ndim <= DIMENSIONS and rest[16] <= AXES):
            raise ValueError("a tensor of an unknown kind")
        axes = tuple(_axis_at(stored, HEAD.size + at * AXIS.size, ndim) for at in range(rest[16]))
        header = cls(
            DTYPES[code], shape_of(rest[:8], ndim), shape_of(rest[8:16], ndim), axes, begin
        )
        if header.nbytes != nbytes or begin < SIZE or begin + nbytes != length:
            raise ValueError(f"{length} bytes for a tensor of shape {header.shape}")
        if bool(shard) != bool(axes) or header.whole != spread(header.shape, axes):
            raise ValueError(f"shape {header.shape} is no part of {header.whole} by {axes}")
        return header


def place_of(whole: tuple[int, ...], axis: Axis) -> tuple[slice, ...]:
    """Where a part lies in a tensor of this shape. Raises ValueError where parts were unequal."""
    place = [slice(0, extent) for extent in whole]
    if axis.split_dim is not None:
        if axis.split_dim >= len(whole) or whole[axis.split_dim] % axis.size:
            raise ValueError(f"shape {whole} is not divided evenly by {axis}")
        extent = whole[axis.split_dim] // axis.size
        place[axis.split_dim] = slice(axis.rank * extent, (axis.rank + 1) * extent)
    return tuple(place)


def spread(shape: tuple[int, ...], axes: tuple[Axis, ...]) -> tuple[int, ...]:
    """Shape of the whole of which `axes` name a part of this shape. Raises ValueError."""
    whole = list(shape)
    for axis in axes:
        if axis.split_dim is not None:
            if not 0 <= axis.split_dim < len(whole):
                raise ValueError(f"no dimension {axis.split_dim} in shape {shape}")
            whole[axis.split_dim] *= axis.size
    return tuple(whole)


def _axis_at(stored: memoryview, offset: int, ndim: int) -> Axis:
    kind, _, rank, size, dim, owner, _ = AXIS.unpack_from(stored, offset)
    if not (0 <= kind < len(KINDS) and 0 <= rank < size <= RANKS and -1 <= dim < ndim):
        raise ValueError("a shard of an unknown kind")
    return Axis(kind, rank, size, None if dim < 0 else dim, owner if KINDS[kind].owner else None)


def padded(shape: tuple[int, ...]) -> list[int]:
    return [*shape, *[-1] * (DIMENSIONS - len(shape))]


def shape_of(stored: list[int], ndim: int) -> tuple[int, ...]:
    shape, beyond = tuple(stored[:ndim]), stored[ndim:]
    if any(extent < 0 for extent in shape) or any(extent != -1 for extent in beyond):
        raise ValueError(f"{stored} is no shape")
    return shape
