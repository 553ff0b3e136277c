"""All verbs of tensors, and tensors as bytes."""

from __future__ import annotations

from typing import Any

from .tensor_files import TensorFiles
from .tensor_header import SIZE
from .tensor_parallel_reads import ParallelReads
from .tensor_parallel_writes import ParallelWrites
from .tensor_stored import Stored, owned
from .tensor_tp import TpTensors
from .tensor_values import bytes_of

__all__ = ["Tensors", "_deserialize_tensor", "_serialize_tensor", "_tensor_metadata_size"]


class Tensors(TensorFiles, TpTensors, ParallelWrites, ParallelReads):
    """A base of the store: tensors of torch and of NumPy, on top of its verbs of bytes.

    An object is a header of 304 bytes and the elements in row order, as Mooncake has it. Methods
    are thread-safe and block; they answer codes below 0, or None, where tensors, places, sizes or
    what is stored make no sense.
    """


def _serialize_tensor(tensor: Any) -> tuple[bytes, int, int, Any]:
    """Header, address and bytes of the elements, and what keeps them alive.

    Raises ValueError for what is not stored as a tensor.
    """
    stored = Stored.of(tensor)
    elements = bytes_of(stored.elements)
    return stored.header.encode(), elements.ctypes.data, elements.nbytes, (tensor, elements)


def _tensor_metadata_size() -> int:
    return SIZE


def _deserialize_tensor(serialized: bytes) -> Any:
    """A tensor of its own memory. Raises ValueError for bytes that are none."""
    return owned(Stored.read(memoryview(serialized).cast("B")))
