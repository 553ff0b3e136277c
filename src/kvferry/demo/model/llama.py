"""The forward pass of a llama, in NumPy and float32. It keeps no KV: who calls it does.

rows = embedding[tokens]                              [n, hidden]
each layer   q, k, v = norm(rows) @ qkv, turned by RoPE but for v
             rows += attend(layer, q, k, v) @ output
             gate, up = norm(rows) @ gate_up
             rows += (silu(gate) * up) @ down
logits = norm(rows[wanted]) @ head
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from .config import Config
from .weights import Array, Layer, Weights

__all__ = ["Array", "Attend", "Llama"]

Ids = NDArray[np.integer[Any]]

# attend(layer, queries [n, heads, d], keys [n, kv heads, d], values [n, kv heads, d])
# -> [n, heads, d]; queries and keys after RoPE; all of them are the callee's until it returns
Attend = Callable[[int, Array, Array, Array], Array]


class Llama:
    """config    its sizes
    revision  names the weights: sha256 of their file, in hexadecimal

    Weights are read alone: any number of threads may call it at a time.
    """

    def __init__(self, config: Config, weights: Weights, revision: str) -> None:
        self.config = config
        self.revision = revision
        self._weights = weights
        half = np.arange(0, config.head_dim, 2) / config.head_dim
        self._frequencies = config.rope_theta**-half

    def forward(
        self, tokens: Ids, positions: Ids, attend: Attend, wanted: Sequence[int] | Ids
    ) -> Array:
        """Logits [len(wanted), vocabulary] of these of the rows.

        tokens, positions  one of each per row; rows may be of several requests: whose they are
                           is known to `attend` alone, which is called once per layer, in order

        Blocks its thread until they are there. Raises UsageError (tokens, positions, wanted)
        before anything is computed, and what `attend` raises.
        """
        tokens, positions, wanted = (
            np.asarray(each, np.int64) for each in (tokens, positions, wanted)
        )
        self._check(tokens, positions, wanted)
        turn = self._turn(positions)
        rows = self._weights.embedding[tokens]
        for number, layer in enumerate(self._weights.layers):
            mixed = attend(number, *self._heads(rows, layer, turn))
            rows += mixed.reshape(len(rows), -1) @ layer.output.T
            rows += self._fed_forward(rows, layer)
        logits: Array = self._norm(rows[wanted], self._weights.norm) @ self._weights.head.T
        return logits

    def _check(self, tokens: Ids, positions: Ids, wanted: Ids) -> None:
        if tokens.ndim != 1 or tokens.shape != positions.shape or wanted.ndim != 1:
            raise UsageError(
                f"tokens {tokens.shape}, positions {positions.shape}, wanted {wanted.shape}: "
                "rows have one of each",
                cause="tokens",
            )
        _within(tokens, self.config.vocabulary, "tokens")
        _within(positions, self.config.context, "positions")
        _within(wanted, len(tokens), "wanted")

    def _turn(self, positions: Ids) -> tuple[Array, Array]:
        """Cosines and sines [n, 1, d / 2], made of angles in float64."""
        angles = positions[:, None, None] * self._frequencies
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def _heads(
        self, rows: Array, layer: Layer, turn: tuple[Array, Array]
    ) -> tuple[Array, Array, Array]:
        config = self.config
        made = self._norm(rows, layer.attention_norm) @ layer.qkv.T
        heads = made.reshape(len(rows), -1, config.head_dim)
        turned = config.heads + config.kv_heads
        _rotate(heads[:, :turned], turn)
        return heads[:, : config.heads], heads[:, config.heads : turned], heads[:, turned:]

    def _fed_forward(self, rows: Array, layer: Layer) -> Array:
        both = self._norm(rows, layer.feed_forward_norm) @ layer.gate_up.T
        gate, up = np.split(both, 2, axis=1)
        down: Array = _silu(gate) * up @ layer.down.T
        return down

    def _norm(self, rows: Array, weight: Array) -> Array:
        """Root mean square."""
        square = np.einsum("nh,nh->n", rows, rows) / np.float32(rows.shape[1])
        scale = 1 / np.sqrt(square + np.float32(self.config.rms_eps))
        normed: Array = rows * scale[:, None] * weight
        return normed


def _within(numbers: Ids, end: int, what: str) -> None:
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < end:
        raise UsageError(f"{what} are from 0 to {end - 1}", cause=what)


def _rotate(heads: Array, turn: tuple[Array, Array]) -> None:
    """In place: the first half of every head against the second."""
    cos, sin = turn
    first, second = np.split(heads, 2, axis=2)
    kept = first.copy()
    first *= cos
    first -= second * sin
    second *= cos
    second += kept * sin


def _silu(gate: Array) -> Array:
    with np.errstate(over="ignore"):  # exp of what is far below zero: the quotient is zero then
        swished: Array = gate / (1 + np.exp(-gate))
    return swished
