"""Tensors as rows of bytes and back: of torch where a program uses it, of NumPy otherwise.

Elements are unsigned integers of their size here, which is enough to cut and join them and needs
nothing that knows bfloat16.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .tensor_header import DType, dtype_of

__all__ = ["Elements", "bytes_of", "elements", "elements_at", "tensor"]

Elements: TypeAlias = NDArray[np.unsignedinteger[Any]]


def _torch() -> Any | None:
    """Who holds a torch tensor has imported torch."""
    return sys.modules.get("torch")


def elements(given: object) -> tuple[DType, Elements]:
    """Of a tensor in host memory or in a device's, which is copied then, and where it is not laid
    out row by row. Raises ValueError for other things and for types that are not stored."""
    torch = _torch()
    if torch is not None and isinstance(given, torch.Tensor):
        return _of_torch(torch, given)
    if isinstance(given, np.ndarray | np.generic):
        array = np.asarray(given)
        dtype = dtype_of(array.dtype.name)
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        return dtype, np.ascontiguousarray(native).view(_unsigned(dtype)).reshape(array.shape)
    raise ValueError(f"{type(given).__name__} is no tensor")


def _of_torch(torch: Any, given: Any) -> tuple[DType, Elements]:
    dtype = dtype_of(str(given.dtype).removeprefix("torch."))
    if given.layout != torch.strided:
        raise ValueError(f"a tensor of layout {given.layout} is not stored")
    flat = given.detach().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)
    return dtype, flat.numpy().view(_unsigned(dtype)).reshape(tuple(given.shape))


def tensor(dtype: DType, array: Elements) -> Any:
    """A tensor over this memory, which must be writable: no copy. One without dimensions gets one,
    as Mooncake's do. Raises ValueError where neither torch nor NumPy knows the type."""
    shape, memory = array.shape or (1,), bytes_of(array)
    torch = _torch()
    if torch is not None:
        kind = getattr(torch, dtype.name, None)
        if kind is None:
            raise ValueError(f"this torch has no {dtype.name}")
        return torch.from_numpy(memory).view(kind).reshape(shape)
    try:
        return memory.view(np.dtype(dtype.name)).reshape(shape)
    except TypeError:
        raise ValueError(f"NumPy has no {dtype.name}; import torch or ml_dtypes first") from None


def bytes_of(array: Elements) -> NDArray[np.uint8]:
    """Its memory, copied where it is not in one piece."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def elements_at(memory: memoryview | NDArray[np.uint8], dtype: DType, shape: Any) -> Elements:
    """As many bytes as this shape has, as its elements: no copy."""
    return np.frombuffer(memory, np.uint8).view(_unsigned(dtype)).reshape(shape)


def _unsigned(dtype: DType) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype(f"u{dtype.itemsize}")
