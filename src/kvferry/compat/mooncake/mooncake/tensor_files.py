"""Tensors to and from safetensors files.

u64   bytes of the index, little endian
...   the index: JSON, {name: {"dtype": "F32", "shape": [..], "data_offsets": [from, to]}},
      offsets from the end of the index
...   elements
"""

from __future__ import annotations

import io
import json
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from .codes import tell
from .tensor_header import DTYPES, Header
from .tensor_stored import Stored, over
from .tensor_values import bytes_of, elements_at
from .tensor_verbs import OK, REFUSED
from .tensor_whole import WholeTensors

__all__ = ["TensorFiles"]

ABSENT = -1100  # Mooncake's code of a file, and of a key that should become one
LENGTH = struct.Struct("<Q")
LONGEST_INDEX = 100 << 20
METADATA = "__metadata__"  # an entry of the index that is no tensor
MARKS = {
    "float32": "F32",
    "float64": "F64",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "bool": "BOOL",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
_DTYPES = {MARKS[dtype.name]: dtype for dtype in DTYPES}


class TensorFiles(WholeTensors):
    """A file holds one tensor when it is saved, and may hold several when it is loaded."""

    def save_tensor_to_safetensor(self, key: str, file_name: str | None = None) -> int:
        """Write the tensor of a key to a file, by default one that is called as the key. 0 or a
        code: -1100 where the key is not there, -600 where it cannot be written."""
        found = self._tensors([key])[0]
        if found is None:
            return ABSENT
        try:
            with _replacing(Path(file_name or key)) as file:
                _write(file, key, found)
        except (OSError, ValueError) as error:
            tell("save_tensor_to_safetensor", error)
            return REFUSED
        return OK

    def load_tensor_from_safetensor(self, key: str | None = None, file_name: str = "") -> Any:
        """Read the tensor that a file has under this key, or else its first one, and put it under
        this key, or else under the file's name. The tensor; None where that failed."""
        try:
            with open(file_name, "rb") as file:
                found = _read(file, key)
            code = found.put(self.put_parts, file_name if key is None else key)
        except (OSError, ValueError) as error:
            tell("load_tensor_from_safetensor", error)
            return None
        return over(found) if code == OK else None


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that is there when it is complete, and not before."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            yield file
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _write(file: IO[bytes], name: str, found: Stored) -> None:
    if name == METADATA:
        raise ValueError(f"no tensor is called {METADATA}")
    dtype, shape = found.header.dtype, found.elements.shape
    entry = {
        "dtype": MARKS[dtype.name],
        "shape": shape,
        "data_offsets": [0, found.header.nbytes],
    }
    index = json.dumps({name: entry}, separators=(",", ":"), ensure_ascii=False).encode()
    index += b" " * (-len(index) % 8)  # elements begin at a multiple of 8
    file.write(LENGTH.pack(len(index)))
    file.write(index)
    file.write(bytes_of(found.elements).data)


def _read(file: io.BufferedReader, key: str | None) -> Stored:
    """Raises ValueError for what is no such file, before memory is taken for what it claims."""
    length = os.fstat(file.fileno()).st_size
    head = file.read(LENGTH.size)
    size = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else length
    begin = LENGTH.size + size
    if size > LONGEST_INDEX or begin > length:
        raise ValueError(f"an index of {size} bytes in a file of {length}")
    name, entry = _chosen(json.loads(file.read(size)), key)
    header, offset = _placed(name, entry, length - begin)
    memory = np.empty(header.nbytes, np.uint8)
    file.seek(begin + offset)
    if file.readinto(memory.data) != header.nbytes:
        raise ValueError(f"{name} was cut off")
    return Stored(header, elements_at(memory, header.dtype, header.shape))


def _chosen(index: Any, key: str | None) -> tuple[str, Any]:
    if not isinstance(index, dict):
        raise ValueError("the index is no JSON object")
    names = [name for name in index if name != METADATA]
    if not names:
        raise ValueError("the file has no tensor")
    name = names[0] if key is None or key not in names else key
    return name, index[name]


def _placed(name: str, entry: Any, room: int) -> tuple[Header, int]:
    """Header of an entry, and where in the `room` behind the index its elements begin."""
    try:
        dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is described as {entry!r}") from error
    if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
        raise ValueError(f"{name} is described as {entry!r}")
    header = Header(dtype, shape, shape)
    if end > room or end - begin != header.nbytes:
        raise ValueError(f"{name} of {header.nbytes} bytes at {begin} to {end} of {room}")
    return header, begin
