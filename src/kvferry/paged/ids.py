"""Numbers of blocks, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

__all__ = ["NOBODY", "Ids", "IdsLike", "blocks_for", "ids_of"]

Ids: TypeAlias = NDArray[np.int64]
IdsLike: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]

NOBODY: Ids = np.empty(0, np.int64)
NOBODY.flags.writeable = False


def ids_of(ids: IdsLike, blocks: int) -> Ids:
    """Contiguous, each from 0 to `blocks` - 1. Raises UsageError (blocks) with the index of the
    first that is not."""
    array = np.asarray(ids)
    if not array.size and array.ndim == 1:
        return NOBODY
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UsageError("numbers of blocks are integers in a row", cause="blocks")
    whole = np.ascontiguousarray(array, np.int64)
    if whole.view(np.uint64).max() >= blocks:
        index = int(np.flatnonzero(whole.view(np.uint64) >= blocks)[0])
        said = f"block {array[index]} of {blocks}"
        raise UsageError(said, cause="blocks", index=index)
    return whole


def blocks_for(tokens: int, block_tokens: int) -> int:
    """How many blocks so many tokens take."""
    return -(-tokens // block_tokens)
