"""Tokens as an array, and cut into blocks of written numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError

__all__ = ["MOST", "Tokens", "cut", "tokens_of"]

Tokens: TypeAlias = NDArray[np.int64]

MOST = 1 << 31
WIDEST = 5  # bytes of a written token


def tokens_of(tokens: Sequence[int] | NDArray[np.integer[Any]]) -> Tokens:
    """Ids from 0 to 2**31 - 1, one-dimensional. Raises UsageError (tokens) for anything else."""
    try:
        array = np.asarray(tokens)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(1, object)
    if not array.size and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UsageError("tokens are not integers in a row", cause="tokens")
    if array.min() < 0 or array.max() >= MOST:
        raise UsageError(f"tokens from {array.min()} to {array.max()}", cause="tokens")
    return array.astype(np.int64, copy=False)


def cut(rows: NDArray[np.uint8], widths: NDArray[np.int64], block: int) -> list[bytes]:
    """The first `widths[i]` bytes of row i, one row behind the other, of each `block` rows."""
    kept = np.tri(1 + WIDEST, rows.shape[1], -1, np.bool_).take(widths, axis=0)
    flat = rows.reshape(-1)[np.flatnonzero(kept)].tobytes()
    ends = np.cumsum(widths)[block - 1 :: block].tolist()
    return [flat[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
