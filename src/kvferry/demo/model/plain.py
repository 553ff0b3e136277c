"""Plain generation: a contiguous cache and dense attention; what serving is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from .config import Config
from .llama import Array, Llama

__all__ = ["generate"]

LOT = 64  # rows whose scores are there at a time


def generate(
    model: Llama,
    tokens: Sequence[int] | NDArray[np.integer[Any]],
    most: int,
    stops: frozenset[int] = frozenset(),
) -> Iterator[int]:
    """The likeliest token after these, and so on: at most so many, up to one of `stops`, which is
    not among them.

    The first one computes all of the prompt. Raises UsageError (tokens) at once for no tokens, or
    more than the model's context together with `most`.
    """
    room = model.config.context - len(tokens)
    if not len(tokens) or not 0 <= most <= room:
        raise UsageError(
            f"{len(tokens)} tokens and {most} to come, in a context of {model.config.context}",
            cause="tokens",
        )
    return _generated(model, np.asarray(tokens, np.int64), most, stops)


def _generated(
    model: Llama, tokens: NDArray[np.int64], most: int, stops: frozenset[int]
) -> Iterator[int]:
    cache = _Cache(model.config, len(tokens) + most)
    for _ in range(most):
        positions = np.arange(cache.filled, cache.filled + len(tokens))
        logits = model.forward(tokens, positions, cache.attend, [len(tokens) - 1])
        cache.filled += len(tokens)
        tokens = logits.argmax(axis=1)
        if (chosen := int(tokens[0])) in stops:
            return
        yield chosen


class _Cache:
    """Keys and values of one request, [layers, kv heads, capacity, d] each; `filled` of them are
    there before a forward pass."""

    def __init__(self, config: Config, capacity: int) -> None:
        shape = (config.layers, config.kv_heads, capacity, config.head_dim)
        self._keys: Array = np.empty(shape, np.float32)
        self._values: Array = np.empty(shape, np.float32)
        self.filled = 0

    def attend(self, layer: int, queries: Array, keys: Array, values: Array) -> Array:
        end = self.filled + len(queries)
        self._keys[layer, :, self.filled : end] = keys.transpose(1, 0, 2)
        self._values[layer, :, self.filled : end] = values.transpose(1, 0, 2)
        out = np.empty_like(queries)
        for begin in range(0, len(queries), LOT):
            lot = queries[begin : begin + LOT]
            seen = self.filled + begin + len(lot)
            of = self._keys[layer, :, :seen], self._values[layer, :, :seen]
            out[begin : begin + LOT] = _attention(lot, *of)
        return out


def _attention(queries: Array, keys: Array, values: Array) -> Array:
    """[n, heads, d] of the last n tokens; keys and values [kv heads, tokens, d]."""
    n, heads, d = queries.shape
    asked = (queries * np.float32(d**-0.5)).transpose(1, 0, 2).reshape(len(keys), -1, d)
    mixed = np.empty_like(asked)
    later = ~np.tri(n, dtype=np.bool_)
    for head in range(len(keys)):
        scores = asked[head] @ keys[head].T
        # of the last n, a row sees those before it, and itself
        last = scores.reshape(-1, n, scores.shape[1])[:, :, -n:]
        np.copyto(last, -np.inf, where=later)
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        np.matmul(scores, values[head], out=mixed[head])
        mixed[head] /= scores.sum(axis=1, keepdims=True)
    return mixed.reshape(heads, n, d).transpose(1, 0, 2)
