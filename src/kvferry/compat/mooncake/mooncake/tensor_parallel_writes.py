"""Parts of tensors, of which each process stores its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .parallelism import Axis, axes_of, cut_of, partition_of, shard_key, tp, with_cut, writer_key
from .replicate import ReplicateConfig
from .store_plan import PLAIN
from .tensor_header import Header, spread
from .tensor_manifest import Manifest, parallelism_manifest, writer_manifest
from .tensor_stored import Stored
from .tensor_verbs import REFUSED, Put, Verbs, each, each_config, first_failure, refusing

__all__ = ["ParallelWrites"]


class ParallelWrites(Verbs):
    """A `parallelism` (TensorParallelism) names the part that a process has, a `writer_partition`
    (anything with rank, size and split_dim) the part of a whole tensor that it is to store."""

    def put_tensor_with_parallelism(
        self,
        key: str,
        tensor: Any,
        parallelism: Any = None,
        config: ReplicateConfig = PLAIN,
        writer_partition: Any = None,
    ) -> int:
        """Store one part, or a whole tensor where neither is said. 0 or a code. Blocks.

        parallelism with a "tp" axis alone: `tensor` is the part. With a "tp" axis among others, and
        with writer_partition: `tensor` is the whole, of which the part is stored. -600 where that
        cannot be divided evenly, and for both at once.
        """
        put = self.put_parts
        return self._put_divided(put, key, tensor, parallelism, config, writer_partition)

    def upsert_tensor_with_parallelism(
        self,
        key: str,
        tensor: Any,
        parallelism: Any = None,
        config: ReplicateConfig = PLAIN,
        writer_partition: Any = None,
    ) -> int:
        """`put_tensor_with_parallelism` that replaces what is there."""
        put = self.upsert_parts
        return self._put_divided(put, key, tensor, parallelism, config, writer_partition)

    def batch_put_tensor_with_parallelism(
        self,
        keys: list[str],
        tensors_list: list[Any],
        parallelisms: Any = None,
        config: ReplicateConfig = PLAIN,
        writer_partitions: Any = None,
    ) -> list[int]:
        """`put_tensor_with_parallelism` of each: a code a key."""
        put = self.put_tensor_with_parallelism
        return _batch(put, keys, [tensors_list], parallelisms, config, writer_partitions)

    def batch_upsert_tensor_with_parallelism(
        self,
        keys: list[str],
        tensors_list: list[Any],
        parallelisms: Any = None,
        config: ReplicateConfig = PLAIN,
        writer_partitions: Any = None,
    ) -> list[int]:
        """`upsert_tensor_with_parallelism` of each: a code a key."""
        put = self.upsert_tensor_with_parallelism
        return _batch(put, keys, [tensors_list], parallelisms, config, writer_partitions)

    def put_tensor_with_parallelism_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: Any = None,
        config: ReplicateConfig = PLAIN,
        writer_partition: Any = None,
    ) -> int:
        """Store header and elements of a whole tensor from an address. With a "tp" axis all its
        parts are stored, whatever its rank is; with writer_partition that one."""
        put = self.put_parts
        memory = (buffer_ptr, size)
        return self._put_divided_from(put, key, memory, parallelism, config, writer_partition)

    def upsert_tensor_with_parallelism_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: Any = None,
        config: ReplicateConfig = PLAIN,
        writer_partition: Any = None,
    ) -> int:
        """`put_tensor_with_parallelism_from` that replaces what is there."""
        put = self.upsert_parts
        memory = (buffer_ptr, size)
        return self._put_divided_from(put, key, memory, parallelism, config, writer_partition)

    def batch_put_tensor_with_parallelism_from(
        self,
        keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        parallelisms: Any = None,
        config: ReplicateConfig = PLAIN,
        writer_partitions: Any = None,
    ) -> list[int]:
        """`put_tensor_with_parallelism_from` of each: a code a key."""
        put = self.put_tensor_with_parallelism_from
        memory = [buffer_ptrs, sizes]
        return _batch(put, keys, memory, parallelisms, config, writer_partitions)

    def batch_upsert_tensor_with_parallelism_from(
        self,
        keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        parallelisms: Any = None,
        config: ReplicateConfig = PLAIN,
        writer_partitions: Any = None,
    ) -> list[int]:
        """`upsert_tensor_with_parallelism_from` of each: a code a key."""
        put = self.upsert_tensor_with_parallelism_from
        memory = [buffer_ptrs, sizes]
        return _batch(put, keys, memory, parallelisms, config, writer_partitions)

    @refusing(REFUSED)
    def _put_divided(
        self,
        put: Put,
        key: str,
        tensor: Any,
        parallelism: Any,
        config: ReplicateConfig,
        writer: Any,
    ) -> int:
        given = Stored.of(tensor)
        if parallelism is None or writer is not None:
            return _put_given(put, key, given, parallelism, config, writer)
        axes = axes_of(parallelism)
        return _put_all(put, key, [_own_part(given, axes)], config)

    @refusing(REFUSED)
    def _put_divided_from(
        self,
        put: Put,
        key: str,
        memory: tuple[int, int],
        parallelism: Any,
        config: ReplicateConfig,
        writer: Any,
    ) -> int:
        given = Stored.read(self._window(*memory))
        if parallelism is None or writer is not None:
            return _put_given(put, key, given, parallelism, config, writer)
        axes = axes_of(parallelism)
        return _put_all(put, key, [given.part(each) for each in _every_rank(axes)], config)


def _put_given(
    put: Put, key: str, given: Stored, parallelism: Any, config: ReplicateConfig, writer: Any
) -> int:
    """A whole tensor, or the one part that its writer wants of it."""
    if writer is None:
        return given.put(put, key, config)
    if parallelism is not None:
        raise ValueError("writer_partition and parallelism cannot both be said")
    axis = partition_of(writer)
    part = given.part((axis,))
    code = part.put(put, writer_key(key, axis), config)
    manifest = Manifest.of(part.header, axis).encode()
    return code or put(writer_manifest(key), manifest, config=config)


def _put_all(put: Put, key: str, parts: list[Stored], config: ReplicateConfig) -> int:
    """Parts of one tensor and, where it was cut, the manifest: last, for those who look for it."""
    header = parts[0].header
    failed = first_failure(
        [part.put(put, shard_key(key, part.header.axes), config) for part in parts]
    )
    if failed or header.tp is None:
        return failed
    manifest = Manifest.of(header, header.tp).encode()
    return put(parallelism_manifest(key), manifest, config=config)


def _own_part(given: Stored, axes: tuple[Axis, ...]) -> Stored:
    """Cut alone, a tensor is given in parts; otherwise it is given whole."""
    if len(axes) > 1:
        return given.part(axes)
    shape = given.header.shape
    return Stored(Header(given.header.dtype, spread(shape, axes), shape, axes), given.elements)


def _every_rank(axes: tuple[Axis, ...]) -> Iterator[tuple[Axis, ...]]:
    cut = cut_of(axes)
    if cut is None or cut.split_dim is None:
        yield axes
        return
    for rank in range(cut.size):
        yield with_cut(axes, tp(rank, cut.size, cut.split_dim))


def _batch(
    put: Any,
    keys: list[str],
    values: list[list[Any]],
    parallelisms: Any,
    config: ReplicateConfig,
    writers: Any,
) -> list[int]:
    if parallelisms is not None and writers is not None:
        parallelisms = ()  # both at once: as many as no batch has
    configs = each_config(config, len(keys))
    return each(REFUSED, put, keys, *values, parallelisms, configs, writers)
