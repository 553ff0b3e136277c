"""Attention of one step: the tokens of several requests, each over its own blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...paged import Slots, paged_attention
from ...paged.ids import Ids
from .pages import Array, Pages

__all__ = ["Part", "attending"]


class Part(NamedTuple):
    """Of one request: tokens from `start` to `stop`, which are these rows of the step.

    blocks  of all its tokens up to `stop`
    slots   where the KV of its rows goes
    """

    rows: slice
    start: int
    stop: int
    blocks: Ids
    slots: Slots


def attending(
    pages: Pages, parts: Sequence[Part], written: Callable[[int], None]
) -> Callable[[int, Array, Array, Array], Array]:
    """What the model calls in each layer. New KV of all parts is written before anybody looks, so
    that one finds what another one computes in the same step.

    written  is told that the KV of a layer is there
    """
    blocks = np.concatenate([part.slots.blocks for part in parts])
    offsets = np.concatenate([part.slots.offsets for part in parts])

    def attend(layer: int, queries: Array, keys: Array, values: Array) -> Array:
        kv = pages.layers[layer]
        kv[blocks, 0, offsets] = keys
        kv[blocks, 1, offsets] = values
        written(layer)
        out = np.empty_like(queries)
        for part in parts:
            asked = queries[part.rows]
            out[part.rows] = paged_attention(asked, kv[:, 0], kv[:, 1], part.blocks, part.stop)
        return out

    return attend
