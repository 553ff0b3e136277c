"""A part of a tensor, or all of it, from however its writers divided it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .codes import tell
from .parallelism import Axis, cut_of, shard_key, tp, with_cut, writer_key
from .tensor_header import SIZE, DType, Header, place_of
from .tensor_manifest import Manifest, parallelism_manifest, writer_manifest
from .tensor_stored import Stored, TensorReads
from .tensor_values import Elements, elements_at

__all__ = ["Room", "TensorGathers", "room_in"]

# Writable memory for the elements of a tensor. Raises ValueError where it does not fit.
Room: TypeAlias = Callable[[Header], Elements]
Window: TypeAlias = Callable[[int, int], Any]  # a buffer of so many bytes at an address
Seen: TypeAlias = dict[str, "Stored | None"]
Place: TypeAlias = tuple[slice, ...]


class Division(NamedTuple):
    """How a stored tensor is divided: into parts along one dimension, each under the `key` of its
    axis, or not at all."""

    dtype: DType
    whole: tuple[int, ...]
    split_dim: int | None
    parts: int
    key: Callable[[Axis], str]

    @classmethod
    def by(cls, found: Header, key: Callable[[Axis], str]) -> Division:
        """As the header of one part says."""
        axis = found.tp
        if axis is None:
            return cls(found.dtype, found.whole, None, 1, key)
        return cls(found.dtype, found.whole, axis.split_dim, axis.size, key)

    def axes(self, place: Place) -> list[Axis]:
        """Of the parts that hold something of this place."""
        dim = self.split_dim
        if dim is None:
            return [tp(0, 1, 0)]
        extent = self.whole[dim] // self.parts
        if not extent:
            return [tp(0, self.parts, dim)]
        ranks = range(place[dim].start // extent, -(-place[dim].stop // extent))
        return [tp(rank, self.parts, dim) for rank in ranks]

    def has(self, found: Stored | None, axis: Axis) -> bool:
        """Whether this is the part of this axis."""
        if found is None or (found.header.dtype, found.header.whole) != (self.dtype, self.whole):
            return False
        return found.header.tp == (None if self.split_dim is None else axis)


class TensorGathers(TensorReads):
    """Parts and wholes. Nothing is put together unless every part of it is there and says that it
    belongs there; memory is taken only then."""

    def _gathered(
        self, key: str, axes: tuple[Axis, ...] | None, wanted: Axis | None, room: Room | None
    ) -> Stored | None:
        """The part `wanted`, one of `axes`, or all of the tensor, in this room or in memory of its
        own. `axes` say which tensor of the key, and how others may have divided it."""
        seen: Seen = {}
        for division in self._divisions(key, axes, seen):
            try:
                return self._joined(division, axes, wanted, room, seen)
            except ValueError as error:
                tell(key, error)
        return None

    def _divisions(self, key: str, axes: tuple[Axis, ...] | None, seen: Seen) -> Iterator[Division]:
        """The nearest first: parts as they are wanted, other parts, parts of writers, wholes."""
        named = partial(_named, key, axes)
        own = None if axes is None else cut_of(axes)
        if own is None:
            yield from self._division_of(key, lambda _: key, seen)
        else:
            yield from self._division_of(named(own), named, seen)
        yield from self._division_in(parallelism_manifest(key), named)
        first = tp(0, 1, 0) if own is None else own._replace(rank=0)
        if own != first:
            yield from self._division_of(named(first), named, seen)
        yield from self._division_in(writer_manifest(key), partial(writer_key, key))
        if own is not None:
            yield from self._division_of(key, lambda _: key, seen)

    def _division_of(self, part: str, key: Callable[[Axis], str], seen: Seen) -> Iterator[Division]:
        found = self._parts([part], seen)[0]
        if found is not None:
            yield Division.by(found.header, key)

    def _division_in(self, manifest: str, key: Callable[[Axis], str]) -> Iterator[Division]:
        stored = self.batch_get_buffer([manifest])[0]
        if stored is None:
            return
        try:
            said = Manifest.decode(memoryview(stored).cast("B"))
        except ValueError as error:
            tell(manifest, error)
            return
        yield Division(said.dtype, said.whole, said.split_dim, said.parts, key)

    def _joined(
        self,
        division: Division,
        axes: tuple[Axis, ...] | None,
        wanted: Axis | None,
        room: Room | None,
        seen: Seen,
    ) -> Stored:
        """Raises ValueError where a part is not there, or there is no such part of the whole."""
        whole = division.whole
        place = _everything(whole) if wanted is None else place_of(whole, wanted)
        needed = division.axes(place)
        parts = self._parts([division.key(axis) for axis in needed], seen)
        stored = []
        for axis, part in zip(needed, parts, strict=True):
            if part is None or not division.has(part, axis):
                raise ValueError(f"no part {axis.rank} of {axis.size} as {division.key(axis)}")
            stored.append((_place(division, axis), part))
        if room is None and stored[0][0] == place:
            return stored[0][1]
        shape = tuple(each.stop - each.start for each in place)
        header = Header(division.dtype, whole, shape, (axes or ()) if wanted else ())
        joined = (room or _own)(header)
        for where, part in stored:
            _copy(part.elements, where, joined, place)
        return Stored(header, joined)

    def _parts(self, keys: list[str], seen: Seen) -> list[Stored | None]:
        missing = [key for key in keys if key not in seen]
        seen.update(zip(missing, self._tensors(missing), strict=True))
        return [seen[key] for key in keys]


def room_in(window: Window, address: int, size: int, header: Header) -> Elements:
    """Behind the header, which is written to this address. Raises ValueError for too few bytes,
    before anything is written."""
    if size < SIZE + header.nbytes:
        raise ValueError(f"{size} bytes for a tensor of {SIZE + header.nbytes}")
    memory = np.frombuffer(window(address, SIZE + header.nbytes), np.uint8)
    memory[:SIZE] = np.frombuffer(header.encode(), np.uint8)
    return elements_at(memory[SIZE:], header.dtype, header.shape)


def _own(header: Header) -> Elements:
    return elements_at(np.empty(header.nbytes, np.uint8), header.dtype, header.shape)


def _named(key: str, axes: tuple[Axis, ...] | None, axis: Axis) -> str:
    return shard_key(key, (axis,) if axes is None else with_cut(axes, axis))


def _everything(whole: tuple[int, ...]) -> Place:
    return tuple(slice(0, extent) for extent in whole)


def _place(division: Division, axis: Axis) -> Place:
    whole = division.whole
    return _everything(whole) if division.split_dim is None else place_of(whole, axis)


def _copy(part: Elements, where: Place, joined: Elements, place: Place) -> None:
    """What both places have in common."""
    both = [
        slice(max(one.start, other.start), min(one.stop, other.stop))
        for one, other in zip(where, place, strict=True)
    ]
    source = tuple(
        slice(b.start - o.start, b.stop - o.start) for b, o in zip(both, where, strict=True)
    )
    target = tuple(
        slice(b.start - o.start, b.stop - o.start) for b, o in zip(both, place, strict=True)
    )
    joined[target] = part[source]
