"""The bytes of a region, seen by who may look at its memory and by who may only copy it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import kvferry as kf

Bytes = npt.NDArray[np.uint8]


def window(region: kf.Region) -> Any:
    """An array over the memory of the host; else what stands in for one."""
    return np.frombuffer(region, np.uint8) if region.reach is None else Window(region)


class Window:
    """Reads by loading and is assigned to by storing; a slice of it is another window."""

    def __init__(self, region: kf.Region, start: int = 0, stop: int | None = None) -> None:
        self._region = region
        self._start, self._stop = start, region.length if stop is None else stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> Bytes:
        loaded = np.frombuffer(self._region.load(len(self), self._start), np.uint8)
        return loaded if dtype is None else loaded.astype(dtype)

    def __getitem__(self, index: slice | int) -> Any:
        if not isinstance(index, slice):
            return self.copy()[index]
        start, stop, _ = index.indices(len(self))
        return Window(self._region, self._start + start, self._start + stop)

    def __setitem__(self, index: slice, values: npt.ArrayLike) -> None:
        part = self[index]
        every = np.broadcast_to(np.asarray(values, np.uint8), len(part))
        self._region.store(np.ascontiguousarray(every), part._start)

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == other

    __hash__ = None  # type: ignore[assignment]

    def any(self) -> bool:
        return bool(np.asarray(self).any())

    def all(self) -> bool:
        return bool(np.asarray(self).all())

    def copy(self) -> Bytes:
        return np.asarray(self)
