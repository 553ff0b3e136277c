"""A DynamicCache as pages of blocks.

The keys of a layer, and its values, are one tensor [1, heads, tokens, dimensions] each. Of whole
blocks it is just what a page of the order "lkht" has, cut after three axes:

    tensor of layer l, keys:  | head 0: block 0, block 1 ... | head 1: block 0, block 1 ... |

So the store reads pages to where the model wants them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from ...errors import UsageError
from ...paged import LayoutRecord, PagedMemory

__all__ = ["cache_of", "check", "cut", "empty", "memory_of", "record_of", "tokens_in"]

Tensors: TypeAlias = list[Any]  # keys and values of the first layer, of the second ...

ORDER, OUTER = "lkht", 3


def record_of(model: Any, name: str, revision: str, block_tokens: int) -> LayoutRecord:
    """Of the pages of a model, which computes the KV of one token for it. Raises UsageError (cache,
    layout) where it is not what a page can have."""
    cache = DynamicCache(config=model.config)
    _check_layers(cache)
    with torch.no_grad():
        model(torch.zeros((1, 1), dtype=torch.int64), past_key_values=cache, use_cache=True)
    _check_layers(cache)
    first = _kv(cache)[0]
    dtype = str(first.dtype).removeprefix("torch.")
    heads, head_dim = first.shape[1], first.shape[3]
    layers = len(cache.layers)
    record = LayoutRecord(name, revision, layers, heads, head_dim, dtype, block_tokens, order=ORDER)
    check(record, cache)
    return record


def check(record: LayoutRecord, cache: Any) -> None:
    """Raises UsageError (cache) for one of other layers, or of other tensors than the record's."""
    _check_layers(cache)
    tensors = _kv(cache)
    if len(tensors) != 2 * record.layers:
        raise _mistake(f"{len(tensors) // 2} layers, not {record.layers}")
    shape = (1, record.heads, tokens_in(cache), record.head_dim)
    for at, tensor in enumerate(tensors):
        found = (tuple(tensor.shape), str(tensor.dtype), tensor.device.type)
        if found != (shape, f"torch.{record.dtype}", "cpu"):
            raise _mistake(f"layer {at // 2} has {found}, not {shape} of {record.dtype} on cpu")


def cut(cache: Any, start: int, stop: int) -> Tensors:
    """The KV of these tokens, contiguous: copied where it is not so."""
    return [tensor.detach()[:, :, start:stop].contiguous() for tensor in _kv(cache)]


def empty(record: LayoutRecord, blocks: int) -> Tensors:
    """For the KV of so many blocks."""
    shape = (1, record.heads, blocks * record.block_tokens, record.head_dim)
    dtype = getattr(torch, record.dtype)
    return [torch.empty(shape, dtype=dtype) for _ in range(2 * record.layers)]


def memory_of(record: LayoutRecord, tensors: Tensors) -> PagedMemory:
    """Of the blocks in contiguous tensors."""
    return PagedMemory(record, tensors[0].shape[2] // record.block_tokens, tensors, OUTER)


def cache_of(config: Any, tensors: Tensors, tokens: int) -> Any:
    """A cache with the KV of the first so many tokens, which it does not copy. None: it is new."""
    cache = DynamicCache(config=config)
    for at, layer in enumerate(cache.layers if tokens else ()):
        keys, values = (each[:, :, :tokens] for each in tensors[2 * at : 2 * at + 2])
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
    return cache


def tokens_in(cache: Any) -> int:
    length: int = cache.get_seq_length()
    return length


def _check_layers(cache: Any) -> None:
    if type(cache) is not DynamicCache or getattr(cache, "offloading", False):
        raise _mistake(f"{type(cache).__name__} is no plain DynamicCache")
    for at, layer in enumerate(cache.layers):
        # Others keep less than all tokens, or other things than keys and values.
        if type(layer) is not DynamicLayer:
            raise _mistake(f"layer {at} is a {type(layer).__name__}, not a DynamicLayer")


def _kv(cache: Any) -> Tensors:
    tensors = [each for layer in cache.layers for each in (layer.keys, layer.values)]
    if not tensors or any(each is None for each in tensors):
        raise _mistake("there are layers without KV")
    return tensors


def _mistake(said: str) -> UsageError:
    return UsageError(f"cache: {said}", cause="cache")
