"""Tensors as they are: one object each, a header and the elements."""

from __future__ import annotations

from typing import Any

from .codes import tell
from .replicate import ReplicateConfig
from .store_plan import PLAIN
from .tensor_stored import Stored, TensorReads, over, owned
from .tensor_verbs import OK, REFUSED, Put, each, each_config, refusing

__all__ = ["WholeTensors"]

NO_CUDA = NotImplementedError("device memory of another process is not mapped here")


class WholeTensors(TensorReads):
    """`put` leaves a key that is there as it is, `upsert` replaces it, `pub` takes a config."""

    def put_tensor(self, key: str, tensor: Any) -> int:
        """Store a tensor of torch or NumPy, in row order. 0, or a code: -600 for what is none, for
        more than 8 dimensions and for element types that are not stored. Blocks."""
        return self._put_tensor(self.put_parts, key, tensor)

    def upsert_tensor(self, key: str, tensor: Any) -> int:
        """`put_tensor` that replaces what is there."""
        return self._put_tensor(self.upsert_parts, key, tensor)

    def pub_tensor(self, key: str, tensor: Any, config: ReplicateConfig = PLAIN) -> int:
        """`put_tensor` with a config."""
        return self._put_tensor(self.put_parts, key, tensor, config)

    def upsert_pub_tensor(self, key: str, tensor: Any, config: ReplicateConfig = PLAIN) -> int:
        """`upsert_tensor` with a config."""
        return self._put_tensor(self.upsert_parts, key, tensor, config)

    def batch_put_tensor(self, keys: list[str], tensors_list: list[Any]) -> list[int]:
        """`put_tensor` of each: a code a key."""
        return each(REFUSED, self.put_tensor, keys, tensors_list)

    def batch_upsert_tensor(self, keys: list[str], tensors_list: list[Any]) -> list[int]:
        """`upsert_tensor` of each: a code a key."""
        return each(REFUSED, self.upsert_tensor, keys, tensors_list)

    def batch_pub_tensor(
        self, keys: list[str], tensors_list: list[Any], config: ReplicateConfig = PLAIN
    ) -> list[int]:
        """`pub_tensor` of each: a code a key."""
        return each(REFUSED, self.pub_tensor, keys, tensors_list, each_config(config, len(keys)))

    def batch_upsert_pub_tensor(
        self, keys: list[str], tensors_list: list[Any], config: ReplicateConfig = PLAIN
    ) -> list[int]:
        """`upsert_pub_tensor` of each: a code a key."""
        return each(
            REFUSED, self.upsert_pub_tensor, keys, tensors_list, each_config(config, len(keys))
        )

    def get_tensor(self, key: str) -> Any:
        """A tensor of its own memory: of torch if the process has imported it, of NumPy otherwise.

        None where the key is not there or is no tensor. Blocks.
        """
        return self.batch_get_tensor([key])[0]

    def batch_get_tensor(self, keys: list[str]) -> list[Any]:
        """`get_tensor` of each."""
        return [owned(found) for found in self._tensors(keys)]

    def put_tensor_from(self, key: str, buffer_ptr: int, size: int) -> int:
        """Store `size` bytes that are a header and the elements, such as `get_tensor_into` leaves
        in memory. 0 or a code."""
        return self.batch_put_tensor_from([key], [buffer_ptr], [size])[0]

    def batch_put_tensor_from(
        self, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
    ) -> list[int]:
        """`put_tensor_from` of each: a code a key."""
        return self._put_from(self.batch_put_from, keys, buffer_ptrs, sizes)

    def upsert_tensor_from(self, key: str, buffer_ptr: int, size: int) -> int:
        """`put_tensor_from` that replaces what is there."""
        return self.batch_upsert_tensor_from([key], [buffer_ptr], [size])[0]

    def batch_upsert_tensor_from(
        self, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
    ) -> list[int]:
        """`upsert_tensor_from` of each: a code a key."""
        return self._put_from(self.batch_upsert_from, keys, buffer_ptrs, sizes)

    def get_tensor_into(self, key: str, buffer_ptr: int, size: int) -> Any:
        """Read header and elements to an address.

        A tensor over that memory, which the caller keeps as long as the tensor; None where the key
        is not there, is no tensor or does not fit. Blocks.
        """
        return self.batch_get_tensor_into([key], [buffer_ptr], [size])[0]

    def batch_get_tensor_into(
        self, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
    ) -> list[Any]:
        """`get_tensor_into` of each."""
        return [over(found) for found in self._tensors_at(keys, buffer_ptrs, sizes)]

    def get_tensor_into_cuda(self, key: str, tensor: Any) -> int:
        """-600, as Mooncake's without CUDA."""
        tell("get_tensor_into_cuda", NO_CUDA)
        return REFUSED

    def batch_get_tensor_into_cuda(self, keys: list[str], tensors_list: list[Any]) -> list[int]:
        """-600 each."""
        return [self.get_tensor_into_cuda(key, None) for key in keys]

    @refusing(REFUSED)
    def _put_tensor(self, put: Put, key: str, tensor: Any, config: ReplicateConfig = PLAIN) -> int:
        return Stored.of(tensor).put(put, key, config)

    def _put_from(
        self, put: Any, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
    ) -> list[int]:
        codes = each(REFUSED, self._checked, keys, buffer_ptrs, sizes)
        rows = [at for at, code in enumerate(codes) if code == OK]
        columns = ([column[at] for at in rows] for column in (keys, buffer_ptrs, sizes))
        for at, code in zip(rows, put(*columns) if rows else (), strict=True):
            codes[at] = code
        return codes

    @refusing(REFUSED)
    def _checked(self, key: str, address: int, length: int) -> int:
        Stored.read(self._window(address, length))
        return OK
