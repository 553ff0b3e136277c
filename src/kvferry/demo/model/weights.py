"""Weights as float32 [out, in], those that the same rows are multiplied with fused.

    qkv      [heads x d | kv heads x d | kv heads x d, hidden]
    gate_up  [feed forward | feed forward, hidden]

The file has the rows of queries and keys so that RoPE turns adjacent ones. They are put back into
the order of Hugging Face, which turns the halves of a head against each other: keys are then those
that other runners cache. Per head:  [d / 2, 2] -> [2, d / 2].
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .config import Config
from .header import Header
from .refusal import refused
from .tensors import Tensors

__all__ = ["Array", "Layer", "Weights", "read_weights"]

Array = NDArray[np.float32]

EMBEDDING, NORM, HEAD = "token_embd.weight", "output_norm.weight", "output.weight"


@dataclass(frozen=True)
class Layer:
    attention_norm: Array
    qkv: Array
    output: Array
    feed_forward_norm: Array
    gate_up: Array
    down: Array


@dataclass(frozen=True)
class Weights:
    """head  makes logits of rows; the embedding itself where a file has no other"""

    embedding: Array
    layers: tuple[Layer, ...]
    norm: Array
    head: Array


@dataclass(frozen=True)
class _Part:
    """A tensor, and what it fills; heads of queries or keys are put in order."""

    tensor: str
    into: Array
    heads: int | None = None


def read_weights(descriptor: int, header: Header, config: Config, threads: int) -> Weights:
    """Reads with pread, on threads that end before it returns. Raises UsageError (model_file,
    demo_extra); where tensors are missing or of other shapes, before anything is allocated."""
    tensors = Tensors(descriptor, header)
    tensors.check(_shapes(config, HEAD in header.tensors))
    weights = _laid_out(config, HEAD in header.tensors)
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda part: _fill(tensors, part), _parts(weights, config)):
            pass
    return weights


def _shapes(config: Config, with_head: bool) -> dict[str, tuple[int, ...]]:
    """Of every tensor that the file has to have, and it may have no other."""
    embedding = (config.vocabulary, config.hidden)
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: embedding, NORM: (config.hidden,)}
    if with_head:
        shapes[HEAD] = embedding
    for layer in range(config.layers):
        shapes |= {f"blk.{layer}.{name}.weight": of for name, of in _layer_shapes(config).items()}
    return shapes


def _layer_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    hidden, wide = config.hidden, config.feed_forward
    heads, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    return {
        "attn_norm": (hidden,),
        "attn_q": (heads, hidden),
        "attn_k": (kv, hidden),
        "attn_v": (kv, hidden),
        "attn_output": (hidden, heads),
        "ffn_norm": (hidden,),
        "ffn_gate": (wide, hidden),
        "ffn_up": (wide, hidden),
        "ffn_down": (hidden, wide),
    }


def _laid_out(config: Config, with_head: bool) -> Weights:
    """Without values yet."""
    hidden, wide = config.hidden, config.feed_forward
    heads, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    embedding = _empty(config.vocabulary, hidden)
    layers = tuple(
        Layer(
            attention_norm=_empty(hidden),
            qkv=_empty(heads + 2 * kv, hidden),
            output=_empty(hidden, heads),
            feed_forward_norm=_empty(hidden),
            gate_up=_empty(2 * wide, hidden),
            down=_empty(hidden, wide),
        )
        for _ in range(config.layers)
    )
    head = _empty(config.vocabulary, hidden) if with_head else embedding
    return Weights(embedding, layers, _empty(hidden), head)


def _empty(*shape: int) -> Array:
    return np.empty(shape, np.float32)


def _parts(weights: Weights, config: Config) -> Iterator[_Part]:
    """The largest first, so that threads end together."""
    yield _Part(EMBEDDING, weights.embedding)
    if weights.head is not weights.embedding:
        yield _Part(HEAD, weights.head)
    for number, layer in enumerate(weights.layers):
        yield from _parts_of_layer(f"blk.{number}", layer, config)
    yield _Part(NORM, weights.norm)


def _parts_of_layer(prefix: str, layer: Layer, config: Config) -> Iterator[_Part]:
    queries, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    q, k, v = np.split(layer.qkv, [queries, queries + kv])
    gate, up = np.split(layer.gate_up, 2)
    yield _Part(f"{prefix}.attn_norm.weight", layer.attention_norm)
    yield _Part(f"{prefix}.attn_q.weight", q, config.heads)
    yield _Part(f"{prefix}.attn_k.weight", k, config.kv_heads)
    yield _Part(f"{prefix}.attn_v.weight", v)
    yield _Part(f"{prefix}.attn_output.weight", layer.output)
    yield _Part(f"{prefix}.ffn_norm.weight", layer.feed_forward_norm)
    yield _Part(f"{prefix}.ffn_gate.weight", gate)
    yield _Part(f"{prefix}.ffn_up.weight", up)
    yield _Part(f"{prefix}.ffn_down.weight", layer.down)


def _fill(tensors: Tensors, part: _Part) -> None:
    if part.heads is None:
        tensors.read(part.tensor, part.into)
    else:
        rows, columns = part.into.shape
        stored = _empty(rows, columns)
        tensors.read(part.tensor, stored)
        pairs = stored.reshape(part.heads, -1, 2, columns)
        part.into.reshape(part.heads, 2, -1, columns)[...] = pairs.transpose(0, 2, 1, 3)
    with np.errstate(invalid="ignore"):
        total = part.into.sum(dtype=np.float64)
    if not np.isfinite(total):
        raise refused(f"{part.tensor} holds what is no number")
