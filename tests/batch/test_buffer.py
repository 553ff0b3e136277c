"""Whatever a caller's memory comes in."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kvferry import _core
from kvferry.batch import Batch, Buffer, buffer_of
from kvferry.errors import UsageError


class Theirs:
    name = "kv"
    span = _core.Span(1 << 44, 1 << 20, 0, True)


class Tensor:
    """What torch tensors offer, and nothing else."""

    def __init__(
        self, memory: np.ndarray, device: str = "cpu", contiguous: bool = True, count: int = -1
    ) -> None:
        self.memory = memory
        self.device = SimpleNamespace(type=device)
        self.contiguous = contiguous
        self.count = memory.size if count < 0 else count

    def data_ptr(self) -> int:
        return self.memory.ctypes.data

    def numel(self) -> int:
        return self.count

    def element_size(self) -> int:
        return self.memory.itemsize

    def is_contiguous(self) -> bool:
        return self.contiguous


class Interface:
    """An object of another library that says where its memory is."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.memory.__array_interface__


def matches(buffer: Buffer, address: int, length: int, readonly: bool = False) -> bool:
    return (buffer.address, buffer.length, buffer.readonly) == (address, length, readonly)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int64, np.complex128, bool, "S7"])
def test_numpy_arrays_of_any_type(dtype: Any) -> None:
    memory = np.zeros((3, 5), dtype)
    assert matches(buffer_of(memory), memory.ctypes.data, memory.nbytes)
    part = memory[1:]
    assert matches(buffer_of(part), part.ctypes.data, part.nbytes)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ns]"])
def test_types_that_the_buffer_protocol_cannot_name(dtype: str) -> None:
    memory = np.zeros((4, 2), dtype)
    assert matches(buffer_of(memory), memory.ctypes.data, 64)
    memory.flags.writeable = False
    assert buffer_of(memory).readonly
    with pytest.raises(UsageError, match="not contiguous"):
        buffer_of(memory.T)


def test_standard_buffers() -> None:
    numbers = array.array("d", [1.0, 2.0])
    assert matches(buffer_of(numbers), numbers.buffer_info()[0], 16)
    raw = ctypes.create_string_buffer(10)
    assert matches(buffer_of(raw), ctypes.addressof(raw), 10)
    text = b"0123456789"
    assert matches(buffer_of(memoryview(text)[2:5]), buffer_of(text).address + 2, 3, True)
    with mmap.mmap(-1, 8192) as pages:
        buffer = buffer_of(pages)
        assert (buffer.length, buffer.readonly, buffer.address % mmap.PAGESIZE) == (8192, False, 0)
        ctypes.memset(buffer.address, 7, 8192)
        assert pages[:] == b"\7" * 8192
        del buffer


def test_a_live_batch_holds_its_memory_in_place() -> None:
    memory = bytearray(64)
    batch = Batch.of(memory, Theirs())
    with pytest.raises(BufferError):
        memory.extend(b"more")
    with pytest.raises(BufferError):
        memory.clear()
    del batch
    memory.extend(b"more")


def test_a_live_batch_keeps_its_memory() -> None:
    class Owned(np.ndarray):
        pass

    memory = np.zeros(64, np.uint8).view(Owned)
    gone = weakref.ref(memory)
    batch = Batch.blocks(memory, [0], Theirs(), [0], 8)
    tensor = Tensor(np.zeros(8))
    tensor_gone = weakref.ref(tensor)
    other = Batch.of(tensor, Theirs())
    del memory, tensor
    gc.collect()
    assert gone() is not None
    assert tensor_gone() is not None
    del batch, other
    gc.collect()
    assert gone() is None
    assert tensor_gone() is None


def test_read_only_memory_is_known_as_such() -> None:
    frozen = np.zeros(8, np.uint8)
    frozen.flags.writeable = False
    for memory in (b"01234567", frozen, memoryview(bytearray(8)).toreadonly(), Interface(frozen)):
        assert buffer_of(memory).readonly


def test_cpu_tensors() -> None:
    memory = np.zeros((4, 8), np.float32)
    assert matches(buffer_of(Tensor(memory)), memory.ctypes.data, 128)


def test_array_interfaces() -> None:
    memory = np.zeros((4, 8), np.float32)
    assert matches(buffer_of(Interface(memory)), memory.ctypes.data, 128)


BAD: dict[str, tuple[Any, str]] = {
    "device tensor": (Tensor(np.zeros(4), device="npu"), "device_memory"),
    "cuda tensor": (Tensor(np.zeros(4), device="cuda"), "device_memory"),
    "meta tensor": (Tensor(np.zeros(4), device="meta"), "device_memory"),
    "strided tensor": (Tensor(np.zeros(4), contiguous=False), "not_contiguous"),
    "empty tensor": (Tensor(np.zeros(4), count=0), "zero_length"),
    "every other": (np.zeros(8)[::2], "not_contiguous"),
    "transposed": (np.zeros((2, 3)).T, "not_contiguous"),
    "fortran": (np.zeros((2, 3), order="F"), "not_contiguous"),
    "backwards": (memoryview(bytearray(8))[::-1], "not_contiguous"),
    "strided interface": (Interface(np.zeros((2, 3)).T), "not_contiguous"),
    "empty array": (np.zeros((0, 3)), "zero_length"),
    "empty bytes": (b"", "zero_length"),
    "empty interface": (Interface(np.zeros(0)), "zero_length"),
    "number": (5, "not_a_buffer"),
    "list": ([1, 2], "not_a_buffer"),
    "text": ("text", "not_a_buffer"),
    "nothing": (None, "not_a_buffer"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_memory_of_ours(name: str) -> None:
    thing, cause = BAD[name]
    with pytest.raises(UsageError) as caught:
        buffer_of(thing)
    assert caught.value.cause == cause
    with pytest.raises(UsageError):
        Batch.of(thing, Theirs())
