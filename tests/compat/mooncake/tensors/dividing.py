"""Ways to store a tensor in parts, and to read it again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from .shelf import Memory


def par(*axes: Any) -> Any:
    from mooncake.parallelism import TensorParallelism

    return TensorParallelism(list(axes))


def tp(rank: int, size: int, split_dim: int | None) -> Any:
    from mooncake.parallelism import ParallelAxis

    return ParallelAxis("tp", rank, size, split_dim)


def others() -> list[Any]:
    from mooncake.parallelism import ParallelAxis

    return [ParallelAxis("dp", 1, 2), ParallelAxis("ep", 0, 4, expert_id=5)]


def target(mode: str, parallelism: Any = None) -> Any:
    from mooncake.parallelism import ReadTarget

    return ReadTarget(mode, parallelism)


def same(found: Any, array: np.ndarray[Any, Any]) -> bool:
    return found is not None and found.dtype == array.dtype and np.array_equal(found, array)


def load(memory: Memory, array: np.ndarray[Any, Any]) -> int:
    """Header and elements at the beginning of the memory; their bytes."""
    from mooncake.tensors import _serialize_tensor

    header, _, size, _ = _serialize_tensor(array)
    memory.bytes[: len(header)] = np.frombuffer(header, np.uint8)
    memory.bytes[len(header) : len(header) + size] = array.reshape(-1).view(np.uint8)
    return len(header) + size


WRITERS = ("whole", "tp", "tp_from", "parts", "parts_from", "several", "several_from", "writer")


def write(store: Any, how: str, array: Any, size: int, dim: int, key: str = "k") -> None:
    """Store the tensor in one of the ways of WRITERS, in so many parts along this dimension."""
    memory = Memory(304 + array.nbytes)
    held = load(memory, array)
    ranks = range(size)
    match how:
        case "whole":
            codes = [store.put_tensor(key, array)]
        case "tp":
            codes = [store.put_tensor_with_tp(key, array, 0, size, dim)]
        case "tp_from":
            codes = [store.put_tensor_with_tp_from(key, memory.at, held, 0, size, dim)]
        case "parts":
            parts = np.split(array, size, axis=dim)
            each = [(part, par(tp(rank, size, dim))) for rank, part in enumerate(parts)]
            codes = [store.put_tensor_with_parallelism(key, *row) for row in each]
        case "parts_from":
            where = par(tp(0, size, dim))
            codes = [store.put_tensor_with_parallelism_from(key, memory.at, held, where)]
        case "several":
            names = [par(*others(), tp(rank, size, dim)) for rank in ranks]
            codes = [store.put_tensor_with_parallelism(key, array, name) for name in names]
        case "several_from":
            where = par(tp(0, size, dim), *others())
            codes = [store.put_tensor_with_parallelism_from(key, memory.at, held, where)]
        case "writer":
            places = [SimpleNamespace(rank=rank, size=size, split_dim=dim) for rank in ranks]
            put = store.put_tensor_with_parallelism
            codes = [put(key, array, writer_partition=place) for place in places]
        case _:
            raise AssertionError(how)
    assert codes == [0] * len(codes)


def read_all(store: Any, how: str, array: Any, size: int, dim: int, key: str = "k") -> None:
    """Every part of this size, and the whole, with memory and without, of what was written so."""
    more = others() if how.startswith("several") else []
    memory = Memory(304 + array.nbytes)
    for rank, part in enumerate(np.split(array, size, axis=dim)):
        wanted = target("shard", par(*more, tp(rank, size, dim)))
        room = 304 + part.nbytes
        assert same(store.get_tensor_with_parallelism(key, wanted), part)
        got = store.get_tensor_with_parallelism_into(key, memory.at, room, wanted)
        assert same(got, part)
        # What was read is a tensor for whoever stores it.
        assert store.upsert_tensor_from("again", memory.at, room) == 0
        assert store.get_tensor_with_parallelism_into(key, memory.at, room - 1, wanted) is None
    full = target("full", par(*more, tp(0, size, dim)))
    for wanted in [full] if more else [full, target("full")]:
        assert same(store.get_tensor_with_parallelism(key, wanted), array)
        got = store.get_tensor_with_parallelism_into(key, memory.at, 304 + array.nbytes, wanted)
        assert same(got, array)
