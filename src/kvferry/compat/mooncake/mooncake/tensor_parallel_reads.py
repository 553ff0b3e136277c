"""Tensors in parts, read by processes that are divided as their writers were, or otherwise."""

from __future__ import annotations

from functools import partial
from typing import Any

from .parallelism import Axis, Mode, cut_of, mode_of, shard_key
from .tensor_gather import Room, TensorGathers, room_in
from .tensor_stored import Stored, over, owned
from .tensor_verbs import each, refusing
from .tensor_whole import WholeTensors

__all__ = ["ParallelReads"]

Axes = tuple[Axis, ...]


class ParallelReads(WholeTensors, TensorGathers):
    """Every `target` is a ReadTarget, or anything with its attributes."""

    @refusing(None)
    def get_tensor_with_parallelism(self, key: str, target: Any = None) -> Any:
        """What a ReadTarget wants; None, and where the key, or a part of it, is not there. Blocks.

        "as_stored": the object under this very key. "shard": the part that its parallelism names,
        put together from others where the tensor was divided otherwise, even along another
        dimension. "full": all of the tensor; of one in parts by several axes, its parallelism says
        of which of them.
        """
        mode, axes = mode_of(target)
        if mode is Mode.AS_STORED:
            return self.get_tensor(_undivided(key, axes))
        return owned(self._wanted(key, mode, axes, None))

    @refusing(None)
    def get_tensor_with_parallelism_into(
        self, key: str, buffer_ptr: int, size: int, target: Any = None
    ) -> Any:
        """The same with header and elements at an address: see `get_tensor_into`."""
        mode, axes = mode_of(target)
        if mode is Mode.AS_STORED:
            return self.get_tensor_into(_undivided(key, axes), buffer_ptr, size)
        exact = self._exact_at(key, mode, axes, buffer_ptr, size)
        room = partial(room_in, self._window, buffer_ptr, size)
        return over(exact or self._wanted(key, mode, axes, room))

    def batch_get_tensor_with_parallelism(self, keys: list[str], targets: Any = None) -> list[Any]:
        """`get_tensor_with_parallelism` of each."""
        return each(None, self.get_tensor_with_parallelism, keys, targets)

    def batch_get_tensor_with_parallelism_into(
        self, keys: list[str], buffer_ptrs: list[int], sizes: list[int], targets: Any = None
    ) -> list[Any]:
        """`get_tensor_with_parallelism_into` of each."""
        get = self.get_tensor_with_parallelism_into
        return each(None, get, keys, buffer_ptrs, sizes, targets)

    def _wanted(self, key: str, mode: Mode, axes: Axes | None, room: Room | None) -> Stored | None:
        """Raises ValueError for a target that names nothing."""
        cut = None if axes is None else cut_of(axes)
        if mode is Mode.FULL:
            if axes is not None and cut is None:
                raise ValueError("a full tensor is of parts by a tp axis")
            return self._gathered(key, axes, None, room)
        if axes is None:
            raise ValueError("a shard is named by a parallelism")
        if cut is None:
            found = self._tensors([shard_key(key, axes)])[0] if room is None else None
            return found if _is(found, axes) else None
        return self._gathered(key, axes, cut, room)

    def _exact_at(
        self, key: str, mode: Mode, axes: Axes | None, address: int, size: int
    ) -> Stored | None:
        """The very part that is wanted, without another copy, where it is stored as such."""
        if mode is Mode.FULL or axes is None:
            return None
        found = self._tensors_at([shard_key(key, axes)], [address], [size])[0]
        return found if _is(found, axes) else None


def _is(found: Stored | None, axes: Axes) -> bool:
    return found is not None and set(found.header.axes) == set(axes)


def _undivided(key: str, axes: Axes | None) -> str:
    if axes is not None:
        raise ValueError("what is as it was stored is named by its key alone")
    return key
