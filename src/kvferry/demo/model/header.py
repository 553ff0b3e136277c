"""What a GGUF file says of itself: its fields, and where its tensors are.

    "GGUF"  version u32  tensors u64  fields u64
    field   name  kind u32  value           text is its length u64, then so many bytes of UTF-8;
            ...                             an array is kind u32, count u64, then so many values
    tensor  name  dimensions u32  size u64 x dimensions  kind u32  offset u64
            ...
    padding up to the alignment             offsets count from here
    data

All little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). The file may come
from a stranger: every length is held against what is left of the file before anything is read, and
against limits far above those of real models before anything is allocated.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from .refusal import refused

__all__ = ["Header", "Tensor", "Value", "read_header"]

Scalar = int | float | bool | str
Value = Scalar | list[Scalar]

VERSIONS = (2, 3)
MAX_HEADER = 256 << 20  # bytes
MAX_ENTRIES = 1 << 21  # of an array
MAX_FIELDS = 1 << 12
MAX_TENSORS = 1 << 16
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 20

TEXT = 8
ARRAY = 9
KINDS = ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", None, None, "<u8", "<i8", "<f8")
SCALARS = {kind: np.dtype(name) for kind, name in enumerate(KINDS) if name}


@dataclass(frozen=True)
class Tensor:
    """shape  rows first, as NumPy has it
    kind   GGML's number of how elements are stored
    start  offset of its first byte in the file
    """

    shape: tuple[int, ...]
    kind: int
    start: int


@dataclass(frozen=True)
class Header:
    """size  of the file, in bytes"""

    fields: dict[str, Value]
    tensors: dict[str, Tensor]
    size: int


def read_header(file: BinaryIO) -> Header:
    """Of a file, from its first byte on. Raises UsageError (model_file)."""
    size = os.fstat(file.fileno()).st_size
    source = _Source(file, min(size, MAX_HEADER))
    if size < 4 or source.take(4) != b"GGUF":
        raise refused("it does not begin as a GGUF file does")
    if (version := source.u32()) not in VERSIONS:
        raise refused(f"version {version} of GGUF, not one of {VERSIONS}")
    count_tensors = _limited(source.u64(), MAX_TENSORS, "tensors")
    count_fields = _limited(source.u64(), MAX_FIELDS, "fields")
    fields: dict[str, Value] = {}
    for _ in range(count_fields):
        name = source.text()
        _once(name, fields)
        fields[name] = source.value(source.u32())
    tensors: dict[str, Tensor] = {}
    for _ in range(count_tensors):
        name = source.text()
        _once(name, tensors)
        tensors[name] = source.tensor()
    start = _aligned(source.position, fields.get("general.alignment", 32))
    placed = {
        name: Tensor(tensor.shape, tensor.kind, start + tensor.start)
        for name, tensor in tensors.items()
    }
    return Header(fields, placed, size)


class _Source:
    """Reads forward, and never past `end`."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file = file
        self._end = end
        self.position = 0

    def take(self, count: int) -> bytes:
        if count > self._end - self.position:
            raise refused(f"it is cut off, or a length in its header is wrong: {count} bytes")
        taken = self._file.read(count)
        if len(taken) != count:
            raise refused("it became shorter while it was read")
        self.position += count
        return taken

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def text(self) -> str:
        try:
            return self.take(self.u64()).decode()
        except UnicodeDecodeError:
            raise refused("text in its header is no UTF-8") from None

    def value(self, kind: int) -> Value:
        if kind == ARRAY:
            return self._array(self.u32(), _limited(self.u64(), MAX_ENTRIES, "entries of an array"))
        return self.text() if kind == TEXT else self._scalars(kind, 1)[0]

    def _array(self, kind: int, count: int) -> list[Scalar]:
        return [self.text() for _ in range(count)] if kind == TEXT else self._scalars(kind, count)

    def _scalars(self, kind: int, count: int) -> list[Scalar]:
        if kind not in SCALARS:
            raise refused(f"a field of kind {kind}")
        dtype = SCALARS[kind]
        found: list[Scalar] = np.frombuffer(self.take(count * dtype.itemsize), dtype).tolist()
        return found

    def tensor(self) -> Tensor:
        """With its start as the file has it."""
        dimensions = _limited(self.u32(), MAX_DIMENSIONS, "dimensions of a tensor")
        shape = struct.unpack(f"<{dimensions}Q", self.take(8 * dimensions))
        return Tensor(shape[::-1], self.u32(), self.u64())


def _limited(count: int, most: int, what: str) -> int:
    if count > most:
        raise refused(f"{count} {what}, more than {most}")
    return count


def _once(name: str, seen: dict[str, Value] | dict[str, Tensor]) -> None:
    if name in seen:
        raise refused(f"{name!r} is there twice")


def _aligned(position: int, alignment: Value) -> int:
    whole = isinstance(alignment, int) and 0 < alignment <= MAX_ALIGNMENT
    if not whole or not isinstance(alignment, int) or alignment & (alignment - 1):
        raise refused(f"general.alignment is {alignment!r}, not a power of two")
    return -(-position // alignment) * alignment
