"""Numbers of blocks, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

__all__ = ["NOBODY", "Ids", "IdsLike", "blocks_for", "check_counts", "ids_of"]

Ids: TypeAlias = NDArray[np.int64]
IdsLike: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]

NOBODY: Ids = np.empty(0, np.int64)
NOBODY.flags.writeable = False


def ids_of(ids: IdsLike, blocks: int) -> Ids:
    """Contiguous, each from 0 to `blocks` - 1. Raises UsageError (blocks) with the index of the
    first that is not."""
    try:
        array = np.asarray(ids)
    except ValueError:  # rows of different lengths
        array = np.empty(1, object)
    if not array.size and array.ndim == 1:
        return NOBODY
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UsageError("numbers of blocks are integers in a row", cause="blocks")
    whole = np.ascontiguousarray(array, np.int64)
    words = whole.view(np.uint64)  # what is below 0 is large
    if int(np.maximum.reduce(words)) >= blocks:
        index = int(np.flatnonzero(words >= blocks)[0])
        said = f"block {array[index]} of {blocks}"
        raise UsageError(said, cause="blocks", index=index)
    return whole


def check_counts(cause: str, *counts: int) -> None:
    """Raises UsageError for what is no number, or less than none."""
    for count in counts:
        if not isinstance(count, (int, np.integer)) or count < 0:
            raise UsageError(f"{count!r} {cause}", cause=cause)


def blocks_for(tokens: int, block_tokens: int) -> int:
    """How many blocks so many tokens take."""
    return -(-tokens // block_tokens)
