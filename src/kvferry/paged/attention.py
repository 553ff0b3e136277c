"""Attention over blocks, in NumPy: to read, and to compare with.

n queries are the last n of the tokens, each sees those up to itself, or the last `window` of them.
Keys and values are [blocks, block tokens, heads, dimensions]; `blocks` is the row of a table. So
many blocks are looked at together, one lot after the other, as a processor without room for all of
them does: the sums so far are scaled to the largest score so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .ids import Ids, IdsLike, blocks_for, ids_of

__all__ = ["dense_attention", "paged_attention", "paged_latent_attention"]

Array = NDArray[np.floating[Any]]

ROWS = 128  # queries that look together
LOT = 64  # blocks that they look at together
LOWEST = -np.inf


def paged_attention(
    queries: Array,
    keys: Array,
    values: Array,
    blocks: IdsLike,
    tokens: int,
    *,
    window: int | None = None,
    scale: float | None = None,
) -> Array:
    """[n, query heads, value dimensions] of queries [n, query heads, dimensions], in float32.

    tokens  how many there are, those of the queries among them
    window  how many of the last tokens each sees, itself among them; blocks before it may be null
    scale   of scores; by default 1 / sqrt(dimensions)

    Query heads are a multiple of the heads of keys: consecutive ones share a head. Raises
    UsageError (attention, blocks) for shapes that do not fit.
    """
    _check(queries, keys, values, blocks, tokens, window)
    row = ids_of(blocks, len(keys))[: blocks_for(tokens, keys.shape[1])]
    asked = np.float32(_scale(queries, scale)) * queries.astype(np.float32)
    first = tokens - len(queries)  # the place of the first query
    out = np.empty((*queries.shape[:2], values.shape[3]), np.float32)
    for begin in range(0, len(queries), ROWS):
        some = asked[begin : begin + ROWS]
        places = np.arange(first + begin, first + begin + len(some))
        out[begin : begin + ROWS] = _attend(some, keys, values, row, places, window)
    return out


def paged_latent_attention(
    queries: Array,
    rotated: Array,
    latents: Array,
    up_keys: Array,
    up_values: Array,
    blocks: IdsLike,
    tokens: int,
    *,
    window: int | None = None,
    scale: float | None = None,
) -> Array:
    """MLA: keys and values of all heads are made of one latent a token, and never laid out.

    queries    [n, heads, dimensions], and the part with positions, `rotated`: [n, heads, p]
    latents    [blocks, block tokens, rank + p]: the latent, and behind it the key's part with
               positions, which all heads share
    up_keys    [heads, dimensions, rank]: a head's key of the latent
    up_values  [heads, value dimensions, rank]
    scale      by default 1 / sqrt(dimensions + p)

    The rest as in paged_attention. What makes keys is applied to queries instead, and what makes
    values to the result.
    """
    _check_latent(queries, rotated, latents, up_keys, up_values)
    rank = up_keys.shape[2]
    wide = queries.shape[2] + rotated.shape[2]
    absorbed = np.einsum("nhd,hdr->nhr", queries, up_keys)
    asked = np.concatenate((absorbed, rotated), axis=2)
    keys = latents[:, :, None]
    mixed = paged_attention(
        asked,
        keys,
        keys[..., :rank],
        blocks,
        tokens,
        window=window,
        scale=wide**-0.5 if scale is None else scale,
    )
    out: Array = np.einsum("nhr,hvr->nhv", mixed, up_values)
    return out


def _attend(
    asked: Array, keys: Array, values: Array, row: Ids, places: Ids, window: int | None
) -> Array:
    """Queries at these places, which follow each other: they look at one lot after the other."""
    count, query_heads, wide = asked.shape
    size, heads = keys.shape[1], keys.shape[2]
    grouped = asked.reshape(count, heads, -1, wide).transpose(1, 2, 0, 3)
    sums = _Sums(grouped.shape[:3], values.shape[3])
    end = int(places[-1]) + 1
    first = 0 if window is None else max(0, int(places[0]) + 1 - window) // size
    for begin in range(first, blocks_for(end, size), LOT):
        lot = row[begin : begin + LOT]
        seen = np.arange(begin * size, min((begin + len(lot)) * size, end))
        scores = grouped @ _of(keys, lot, len(seen)).transpose(0, 2, 1)[:, None]
        if window is not None or seen[-1] > places[0]:
            scores[..., ~_visible(places, seen, window)] = LOWEST
        sums.add(scores, _of(values, lot, len(seen))[:, None])
    return sums.result().transpose(2, 0, 1, 3).reshape(count, query_heads, -1)


def dense_attention(
    queries: Array,
    keys: Array,
    values: Array,
    *,
    window: int | None = None,
    scale: float | None = None,
) -> Array:
    """The same over keys and values [tokens, heads, dimensions], all at once and in float64: what
    is compared with."""
    count, group = len(queries), queries.shape[1] // keys.shape[1]
    wide = [np.repeat(each.astype(np.float64), group, axis=1) for each in (keys, values)]
    scores = np.einsum("nhd,thd->hnt", queries * np.float64(_scale(queries, scale)), wide[0])
    places = np.arange(len(keys) - count, len(keys))
    scores[:, ~_visible(places, np.arange(len(keys)), window)] = LOWEST
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    out: Array = np.einsum("hnt,thd->nhd", weights, wide[1])
    return out


class _Sums:
    """Weighted sums of values, as far as blocks were looked at: [heads, group, n, dimensions]."""

    def __init__(self, shape: tuple[int, ...], dimensions: int) -> None:
        self._most: Array = np.full((*shape, 1), LOWEST, np.float32)
        self._weight: Array = np.zeros((*shape, 1), np.float32)
        self._sum: Array = np.zeros((*shape, dimensions), np.float32)

    def add(self, scores: Array, values: Array) -> None:
        """Scores are used up."""
        most = np.maximum(self._most, scores.max(axis=-1, keepdims=True))
        shown = np.where(np.isfinite(most), most, np.float32(0))  # nothing was visible yet
        scores -= shown
        weights = np.exp(scores, out=scores)
        before = np.exp(self._most - shown)
        self._weight = before * self._weight + weights.sum(axis=-1, keepdims=True)
        self._sum = before * self._sum + weights @ values
        self._most = most

    def result(self) -> Array:
        return self._sum / self._weight


def _of(cache: Array, lot: NDArray[np.int64], tokens: int) -> Array:
    """[heads, tokens, dimensions]"""
    flat = cache[lot].reshape(-1, *cache.shape[2:])[:tokens]
    return flat.astype(np.float32).transpose(1, 0, 2)


def _visible(
    places: NDArray[np.int64], seen: NDArray[np.int64], window: int | None
) -> NDArray[np.bool_]:
    """[queries, tokens]"""
    behind = places[:, None] - seen
    visible: NDArray[np.bool_] = behind >= 0
    return visible if window is None else visible & (behind < window)


def _scale(queries: Array, scale: float | None) -> float:
    return float(queries.shape[-1]) ** -0.5 if scale is None else scale


def _check(
    queries: Array, keys: Array, values: Array, blocks: IdsLike, tokens: int, window: int | None
) -> None:
    if queries.ndim != 3 or keys.ndim != 4 or keys.shape[:3] != values.shape[:3]:
        raise _mistake(f"queries {queries.shape}, keys {keys.shape}, values {values.shape}")
    if queries.shape[1] % keys.shape[2] or queries.shape[2] != keys.shape[3]:
        raise _mistake(f"queries {queries.shape} do not fit keys {keys.shape}")
    if not 0 < len(queries) <= tokens <= len(blocks) * keys.shape[1]:
        raise _mistake(f"{len(queries)} queries of {tokens} tokens in {len(blocks)} blocks")
    if window is not None and window < 1:
        raise _mistake(f"a window of {window} tokens")


def _check_latent(
    queries: Array, rotated: Array, latents: Array, up_keys: Array, up_values: Array
) -> None:
    if {each.ndim for each in (queries, rotated, latents, up_keys, up_values)} != {3}:
        raise _mistake("queries, latents and what makes keys and values have three axes")
    rank = up_keys.shape[2]
    if latents.shape[2] != rank + rotated.shape[2]:
        raise _mistake(f"latents {latents.shape} for a rank of {rank}")
    if up_keys.shape[:2] != queries.shape[1:] or rotated.shape[:2] != queries.shape[:2]:
        raise _mistake(f"queries {queries.shape}, {rotated.shape} for keys {up_keys.shape}")
    if up_values.shape[0] != queries.shape[1] or up_values.shape[2] != rank:
        raise _mistake(f"values {up_values.shape} of {queries.shape[1]} heads, a rank of {rank}")


def _mistake(said: str) -> UsageError:
    return UsageError(said, cause="attention")
