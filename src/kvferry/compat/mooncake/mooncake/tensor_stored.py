"""Tensors where they lie: in what was read, in a caller's memory, in what is to be stored."""

from __future__ import annotations

from typing import Any, NamedTuple

from .codes import tell
from .parallelism import Axis
from .replicate import ReplicateConfig
from .store_plan import PLAIN
from .tensor_header import Header, place_of
from .tensor_values import Elements, bytes_of, elements, elements_at, tensor
from .tensor_verbs import UNFIT, Put, Verbs, each

__all__ = ["Stored", "TensorReads", "over", "owned"]


class Stored(NamedTuple):
    """A tensor or a part of one, header and elements."""

    header: Header
    elements: Elements

    @classmethod
    def of(cls, given: Any) -> Stored:
        """Of a whole tensor, or the memory it lies in. Raises ValueError for other things."""
        dtype, array = elements(given)
        return cls(Header(dtype, array.shape, array.shape), array)

    @classmethod
    def read(cls, given: Any) -> Stored:
        """Of a buffer of an object's bytes: a view. Raises ValueError when they are no tensor."""
        memory = memoryview(given).cast("B")
        header = Header.decode(memory, len(memory))
        payload = memory[header.begin : header.begin + header.nbytes]
        return cls(header, elements_at(payload, header.dtype, header.shape))

    def part(self, axes: tuple[Axis, ...]) -> Stored:
        """What `axes` name of a whole tensor: a view. Raises ValueError where it cannot be cut."""
        whole = self.header.shape
        array = self.elements
        for axis in axes:
            array = array[place_of(whole, axis)]
        return Stored(Header(self.header.dtype, whole, array.shape, axes), array)

    def put(self, put: Put, key: str, config: ReplicateConfig = PLAIN) -> int:
        """Store it. 0 or a code; raises ValueError for more dimensions than there may be."""
        payload = [bytes_of(self.elements)] if self.elements.size else []
        return put(key, self.header.encode(), *payload, config=config)


class TensorReads(Verbs):
    """Objects read as tensors; None for what is not there, does not fit or is no tensor."""

    def _tensors(self, keys: list[str]) -> list[Stored | None]:
        """In memory of their own, which lives as long as what is returned."""
        return each(None, _read, keys, self.batch_get_buffer(keys))

    def _tensors_at(
        self, keys: list[str], addresses: list[int], sizes: list[int]
    ) -> list[Stored | None]:
        """At the addresses, which have room for `sizes` bytes."""
        if not len(keys) == len(addresses) == len(sizes):
            return each(None, self._read_at, keys, addresses, sizes)
        lengths = self.batch_get_into(keys, addresses, sizes)
        return each(None, self._read_at, keys, addresses, lengths)

    def _read_at(self, key: str, address: int, length: int) -> Stored | None:
        """A length below 0 is a code."""
        try:
            return None if length < 0 else Stored.read(self._window(address, length))
        except UNFIT as error:
            tell(key, error)
            return None


def _read(key: str, found: Any) -> Stored | None:
    try:
        return None if found is None else Stored.read(found)
    except ValueError as error:
        tell(key, error)
        return None


def over(found: Stored | None) -> Any:
    """A tensor over the same memory, which must be writable."""
    try:
        return None if found is None else tensor(found.header.dtype, found.elements)
    except ValueError as error:
        return tell("a tensor", error)


def owned(found: Stored | None) -> Any:
    """A tensor of what was read into memory of its own, copied if that cannot be written."""
    if found is None or found.elements.flags.writeable:
        return over(found)
    return over(Stored(found.header, found.elements.copy()))
