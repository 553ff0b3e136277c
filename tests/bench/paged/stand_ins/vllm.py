"""Stands in for vLLM: the names that are asked for, over our own manager."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from kvferry.paged import BlockManager, PrefixHash

__version__ = "0.0"

WRONG = os.environ.get("STAND_IN")


class Request:
    def __init__(self, name: str, tokens: list[int], *asked: Any, block_hasher: PrefixHash) -> None:
        self.inner = MANAGER[0].request(name, tokens)
        self.num_tokens = len(tokens)
        self.block_hashes = self.inner.hashes
        if WRONG == "hashes":
            self.block_hashes = [bytes(reversed(hash_)) for hash_ in self.block_hashes]


class KVCacheManager:
    def __init__(self, config: tuple[int, Any, Any], hash_block_size: int, **asked: int) -> None:
        MANAGER.append(BlockManager(config[0], PrefixHash(hash_block_size)))
        self.manager = MANAGER[0]
        self.block_pool = self

    def get_new_blocks(self, count: int) -> list[int]:
        blocks = self.manager.pool.allocate(count)
        assert blocks is not None
        return list(map(int, blocks))

    def cache_full_blocks(self, request: Request, blocks: list[int], *asked: int) -> None:
        self.manager.pool.cache(blocks, request.block_hashes)

    def get_cached_block(self, hash_: bytes, groups: list[int]) -> list[int] | None:
        return self.manager.prefixes.hit([hash_], 1 << 20).tolist() or None

    def free_blocks(self, blocks: Any) -> None:
        self.manager.pool.free(list(blocks)[::-1])

    def touch(self, blocks: list[int]) -> None:
        self.manager.pool.touch(blocks)

    def get_computed_blocks(self, request: Request) -> tuple[Any, int, int]:
        if WRONG == "fails":
            raise ValueError("asked to")
        hit = self.manager.get_computed_blocks(request.inner)
        return hit, hit.tokens, 0

    def allocate_slots(self, request: Request, new: int, computed: int, hit: Any) -> object:
        return self.manager.allocate_slots(request.inner, request.num_tokens - hit.tokens, hit=hit)

    def free(self, request: Request) -> None:
        self.manager.free(request.inner)


MANAGER: list[BlockManager] = []


def _stand_in(name: str, **what: Any) -> None:
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(what)


for _name in ("vllm.v1", "vllm.v1.core", "vllm.utils"):
    _stand_in(_name)
_stand_in("torch", bfloat16="bfloat16")
_stand_in("vllm.sampling_params", SamplingParams=SimpleNamespace)
_stand_in("vllm.utils.hashing", sha256="sha256")
_stand_in(
    "vllm.v1.core.kv_cache_utils",
    init_none_hash=lambda digest: None,
    get_request_block_hasher=lambda size, digest: PrefixHash(size, digest),
)
_stand_in(
    "vllm.v1.kv_cache_interface",
    FullAttentionSpec=SimpleNamespace,
    KVCacheGroupSpec=lambda layers, spec: (layers, spec),
    KVCacheConfig=lambda blocks, tensors, groups: (blocks, tensors, groups),
)
_stand_in("vllm.v1.request", Request=Request)
_stand_in("vllm.v1.core.kv_cache_manager", KVCacheManager=KVCacheManager)
