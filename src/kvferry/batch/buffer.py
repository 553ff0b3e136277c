"""A caller's memory, whatever object it comes in."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core import address_of
from ..errors import UsageError

__all__ = ["Buffer", "DeviceMemory", "buffer_of", "device_memory_of"]

ADDRESSES = 1 << 64

_NAMES = re.compile(":[^:]*:")  # of fields, in a format


class Buffer(NamedTuple):
    """A contiguous range of this process's memory and the object that keeps it.

    address  of the first byte
    length   bytes, above zero
    readonly the owner does not allow it to be written
    owner    holding it keeps the memory where it is
    """

    address: int
    length: int
    readonly: bool
    owner: object


class DeviceMemory(NamedTuple):
    """A range of a device's memory, by addresses of its runtime; see Engine.register.

    address  of the first byte
    length   bytes
    owner    holding it keeps the memory where it is
    """

    address: int
    length: int
    owner: object = None


def device_memory_of(thing: Any) -> DeviceMemory | None:
    """The memory of a tensor that lies in a device, and a DeviceMemory as it is; None: neither.

    Raises UsageError when it is empty or not contiguous.
    """
    if isinstance(thing, DeviceMemory):
        if not 0 < thing.length <= ADDRESSES - thing.address:
            raise UsageError("the range is no range of addresses", cause="wraps")
        return thing
    if not hasattr(thing, "data_ptr") or thing.device.type == "cpu":
        return None
    return DeviceMemory(thing.data_ptr(), _length_of(thing), thing)


def buffer_of(thing: Any) -> Buffer:
    """The memory behind `thing`: the buffer protocol, ``__array_interface__`` or a CPU tensor.

    Nothing is copied; the result keeps the memory alive. Raises UsageError when the memory is not
    C-contiguous, is empty, is on a device, or when `thing` has none of the three.
    """
    try:
        view = memoryview(thing)
    except (TypeError, ValueError):  # ValueError: elements that the buffer protocol cannot name
        pass
    else:
        return _from_view(view, thing)
    if hasattr(thing, "data_ptr"):
        return _from_tensor(thing)
    if hasattr(thing, "__array_interface__"):
        return _from_array(np.asarray(thing), thing)
    raise UsageError(f"{type(thing).__name__} is not a buffer", cause="not_a_buffer")


def _from_view(view: memoryview, thing: object) -> Buffer:
    if "O" in view.format and "O" in _NAMES.sub("", view.format):
        raise UsageError(f"{type(thing).__name__} holds objects, not bytes", cause="not_a_buffer")
    if not view.c_contiguous:
        raise UsageError(f"{type(thing).__name__} is not contiguous", cause="not_contiguous")
    if not view.nbytes:
        raise UsageError(f"{type(thing).__name__} holds no bytes", cause="zero_length")
    return Buffer(address_of(view), view.nbytes, view.readonly, view)


def _from_array(array: npt.NDArray[Any], thing: object) -> Buffer:
    if array.dtype.hasobject:
        raise UsageError(f"{type(thing).__name__} holds objects, not bytes", cause="not_a_buffer")
    if not array.flags.c_contiguous:
        raise UsageError(f"{type(thing).__name__} is not contiguous", cause="not_contiguous")
    return _from_view(memoryview(array.reshape(-1).view(np.uint8)), thing)


def _from_tensor(tensor: Any) -> Buffer:
    """What torch tensors offer, without importing torch."""
    device = tensor.device.type
    if device != "cpu":
        raise UsageError(f"tensor is in {device} memory, not in this host's", cause="device_memory")
    return Buffer(tensor.data_ptr(), _length_of(tensor), False, tensor)


def _length_of(tensor: Any) -> int:
    """Its bytes, which follow each other."""
    if not tensor.is_contiguous():
        raise UsageError("tensor is not contiguous", cause="not_contiguous")
    length: int = tensor.numel() * tensor.element_size()
    if not length:
        raise UsageError("tensor holds no bytes", cause="zero_length")
    return length
