"""Tensors in equal parts, one for each rank: whoever has the whole stores every part of it."""

from __future__ import annotations

from typing import Any

from .codes import tell
from .parallelism import shard_key, tp
from .replicate import ReplicateConfig
from .store_plan import PLAIN
from .tensor_stored import Stored, over, owned
from .tensor_verbs import REFUSED, each, first_failure, refusing
from .tensor_whole import WholeTensors

__all__ = ["TpTensors"]


class TpTensors(WholeTensors):
    """The key of a part is KEY_tp_RANK; with a `tp_size` of 1 the tensor is stored whole."""

    @refusing(REFUSED)
    def put_tensor_with_tp(
        self, key: str, tensor: Any, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> int:
        """Store a whole tensor as `tp_size` parts, all of them whatever `tp_rank` is. 0 or a code:
        -600 when the dimension cannot be divided evenly. Blocks."""
        return self._put_tp(key, Stored.of(tensor), tp_size, split_dim)

    @refusing(REFUSED)
    def pub_tensor_with_tp(
        self,
        key: str,
        tensor: Any,
        config: ReplicateConfig = PLAIN,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> int:
        """`put_tensor_with_tp` with a config."""
        return self._put_tp(key, Stored.of(tensor), tp_size, split_dim, config)

    def batch_put_tensor_with_tp(
        self,
        base_keys: list[str],
        tensors_list: list[Any],
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """`put_tensor_with_tp` of each: a code a key."""
        place = (tp_rank, tp_size, split_dim)
        return self.batch_pub_tensor_with_tp(base_keys, tensors_list, PLAIN, *place)

    def batch_pub_tensor_with_tp(
        self,
        base_keys: list[str],
        tensors_list: list[Any],
        config: ReplicateConfig = PLAIN,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """`pub_tensor_with_tp` of each: a code a key."""

        def put(key: str, tensor: Any) -> int:
            return self.pub_tensor_with_tp(key, tensor, config, tp_rank, tp_size, split_dim)

        return each(REFUSED, put, base_keys, tensors_list)

    @refusing(REFUSED)
    def put_tensor_with_tp_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> int:
        """The same of header and elements at an address."""
        return self._put_tp(key, Stored.read(self._window(buffer_ptr, size)), tp_size, split_dim)

    def batch_put_tensor_with_tp_from(
        self,
        base_keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """`put_tensor_with_tp_from` of each: a code a key."""

        def put(key: str, address: int, size: int) -> int:
            return self.put_tensor_with_tp_from(key, address, size, tp_rank, tp_size, split_dim)

        return each(REFUSED, put, base_keys, buffer_ptrs, sizes)

    def get_tensor_with_tp(
        self, key: str, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> Any:
        """The part of a rank, along whatever dimension it was cut. None where it is not there or
        the tensor was not cut into `tp_size`. Blocks."""
        return self.batch_get_tensor_with_tp([key], tp_rank, tp_size)[0]

    def batch_get_tensor_with_tp(
        self, base_keys: list[str], tp_rank: int = 0, tp_size: int = 1
    ) -> list[Any]:
        """`get_tensor_with_tp` of each."""
        found = self._tensors(_keys(base_keys, tp_rank, tp_size))
        return [owned(_checked(part, tp_rank, tp_size)) for part in found]

    def get_tensor_with_tp_into(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> Any:
        """The same with header and elements at an address: see `get_tensor_into`."""
        return self.batch_get_tensor_with_tp_into([key], [buffer_ptr], [size], tp_rank, tp_size)[0]

    def batch_get_tensor_with_tp_into(
        self,
        base_keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        tp_rank: int = 0,
        tp_size: int = 1,
    ) -> list[Any]:
        """`get_tensor_with_tp_into` of each."""
        keys = _keys(base_keys, tp_rank, tp_size)
        found = self._tensors_at(keys, buffer_ptrs, sizes)
        return [over(_checked(part, tp_rank, tp_size)) for part in found]

    def _put_tp(
        self,
        key: str,
        whole: Stored,
        size: int,
        split_dim: int,
        config: ReplicateConfig = PLAIN,
    ) -> int:
        if size <= 1:
            return whole.put(self.put_parts, key, config)
        axes = [(tp(rank, size, split_dim),) for rank in range(size)]
        parts = [whole.part(each) for each in axes]
        named = zip(axes, parts, strict=True)
        return first_failure(
            [part.put(self.put_parts, shard_key(key, each), config) for each, part in named]
        )


def _keys(keys: list[str], rank: int, size: int) -> list[str]:
    return keys if size <= 1 else [f"{key}_tp_{rank}" for key in keys]


def _checked(part: Stored | None, rank: int, size: int) -> Stored | None:
    """A part of this place, or None."""
    if part is None or size <= 1:
        return part
    axis = part.header.tp
    if axis is not None and (axis.rank, axis.size) == (rank, size):
        return part
    tell("a part", ValueError(f"stored is {axis}, and not rank {rank} of {size}"))
    return None
