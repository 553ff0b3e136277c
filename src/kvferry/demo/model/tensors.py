"""Tensors of a file, whatever they are quantised as, to float32."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .header import Header, Tensor
from .refusal import missing, refused

__all__ = ["Tensors"]

LOT = 1 << 20  # elements that are made into float32 at once: they stay in the cache meanwhile


class Tensors:
    """Of an open file, which stays the caller's. Thread-safe."""

    def __init__(self, descriptor: int, header: Header) -> None:
        try:
            import gguf
        except ImportError:
            raise missing("gguf") from None
        self._gguf: Any = gguf
        self._descriptor = descriptor
        self._header = header

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """These are there, they alone, and the file holds all their bytes."""
        for name in shapes:
            if name not in self._header.tensors:
                raise refused(f"the tensor {name} is missing")
        for name, tensor in self._header.tensors.items():
            if name not in shapes:
                raise refused(f"the tensor {name!r} is not implemented")
            if tensor.shape != shapes[name]:
                raise refused(f"the tensor {name} is {tensor.shape}, not {shapes[name]}")
            self._check_extent(name, tensor)

    def _check_extent(self, name: str, tensor: Tensor) -> None:
        columns, row_bytes = tensor.shape[-1], self._row_bytes(name, tensor)
        end = tensor.start + prod(tensor.shape) // columns * row_bytes
        if end > self._header.size:
            raise refused(f"{name} ends at byte {end} of a file of {self._header.size}")

    def _row_bytes(self, name: str, tensor: Tensor) -> int:
        kind = self._kind(name, tensor)
        elements, size = self._gguf.GGML_QUANT_SIZES[kind]
        if tensor.shape[-1] % elements:
            raise refused(f"rows of {name} are no whole blocks of {elements} elements")
        return int(tensor.shape[-1] // elements * size)

    def _kind(self, name: str, tensor: Tensor) -> Any:
        try:
            return self._gguf.GGMLQuantizationType(tensor.kind)
        except ValueError:
            raise refused(f"{name} is stored as {tensor.kind}, an unknown kind") from None

    def read(self, name: str, into: NDArray[np.float32]) -> None:
        """Fills `into`, which has the shape of the tensor; after `check`. Raises UsageError."""
        tensor = self._header.tensors[name]
        row_bytes = self._row_bytes(name, tensor)
        rows = into.reshape(-1, tensor.shape[-1])
        step = max(1, LOT // tensor.shape[-1])
        for begin in range(0, len(rows), step):
            lot = rows[begin : begin + step]
            stored = self._bytes(tensor.start + begin * row_bytes, len(lot) * row_bytes)
            lot[...] = self._numbers(name, stored.reshape(len(lot), row_bytes))

    def _bytes(self, start: int, count: int) -> NDArray[np.uint8]:
        stored = os.pread(self._descriptor, count, start)
        if len(stored) != count:
            raise refused("it became shorter while it was read")
        return np.frombuffer(stored, np.uint8)

    def _numbers(self, name: str, stored: NDArray[np.uint8]) -> NDArray[np.float32]:
        kind = self._kind(name, self._header.tensors[name])
        try:
            # what is no number in a file is found by who reads, not here
            with np.errstate(all="ignore"):
                numbers: NDArray[np.float32] = self._gguf.quants.dequantize(stored, kind)
        except NotImplementedError:
            raise refused(f"{name} is stored as {kind.name}, which is not implemented") from None
        return numbers
