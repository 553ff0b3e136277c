"""LMCache's remote backend on a store, in a process of its own.

python backend.py MASTER WITH_METADATA FD

reads lines of JSON from stdin: {"put": [number, ...]} or {"get": [number, ...]}, and answers each
at FD: null, or of each chunk what is true of its bytes: "right", "missing", "wrong".
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from typing import Any

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
from lmcache.v1.storage_backend.remote_backend import RemoteBackend

LAYERS, TOKENS, HEADS, DIM = 4, 256, 3, 64
PATIENCE = 30.0


class Backend:
    def __init__(self, master: str, with_metadata: bool) -> None:
        config = LMCacheEngineConfig.from_defaults(
            chunk_size=TOKENS,
            local_cpu=False,
            max_local_cpu_size=0.1,
            remote_url=f"mooncakestore://{master}/",
            remote_serde="naive",
            extra_config={
                "local_hostname": "127.0.0.1",
                "metadata_server": "P2PHANDSHAKE",
                "protocol": "tcp",
                "device_name": "",
                "master_server_address": master,
                "global_segment_size": 64 << 20,
                "local_buffer_size": 16 << 20,
                "transfer_timeout": 10,
                "save_chunk_meta": with_metadata,
            },
        )
        metadata = LMCacheMetadata(
            model_name="model",
            world_size=1,
            local_world_size=1,
            worker_id=0,
            local_worker_id=0,
            kv_dtype=torch.bfloat16,
            kv_shape=(LAYERS, 2, TOKENS, HEADS, DIM),
            chunk_size=TOKENS,
        )
        self._shape = metadata.get_shapes()[0]
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        self._memory = LocalCPUBackend(config, metadata, dst_device="cpu")
        self._backend = RemoteBackend(config, metadata, loop, self._memory, dst_device="cpu")

    def put(self, numbers: list[int]) -> None:
        keys = [_key(number) for number in numbers]
        chunks = []
        for number in numbers:
            chunk = self._memory.allocate(self._shape, torch.bfloat16, MemoryFormat.KV_2LTD)
            chunk.tensor.copy_(self._values(number))
            chunks.append(chunk)
        self._backend.batched_submit_put_task(keys, chunks)
        end = time.monotonic() + PATIENCE
        while not all(self._backend.contains(key) for key in keys):
            assert time.monotonic() < end, "a put does not end"
            time.sleep(0.01)

    def get(self, numbers: list[int]) -> list[str]:
        keys = [_key(number) for number in numbers]
        there = [self._backend.contains(key) for key in keys]
        chunks = self._backend.batched_get_blocking(keys)
        return [self._state(*each) for each in zip(numbers, there, chunks, strict=True)]

    def _state(self, number: int, there: bool, chunk: Any) -> str:
        if chunk is None:
            return "wrong" if there else "missing"
        return "right" if torch.equal(chunk.tensor, self._values(number)) else "wrong"

    def _values(self, number: int) -> Any:
        random = torch.Generator().manual_seed(number)
        return torch.randn(self._shape, generator=random).to(torch.bfloat16)


def _key(number: int) -> CacheEngineKey:
    return CacheEngineKey("model", 1, 0, number, torch.bfloat16)


def main(master: str, with_metadata: str, answers: str) -> None:
    out = os.fdopen(int(answers), "w")
    backend = Backend(master, with_metadata == "True")
    print(json.dumps(None), file=out, flush=True)
    for line in sys.stdin:
        ((verb, numbers),) = json.loads(line).items()
        print(json.dumps(getattr(backend, verb)(numbers)), file=out, flush=True)
    os._exit(0)  # threads of LMCache do not end


if __name__ == "__main__":
    main(*sys.argv[1:])
