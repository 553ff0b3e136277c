"""vLLM's pool and manager, asked as its scheduler asks them; and a process that does it.

It runs in any Python that has vLLM, NumPy and msgspec, so it imports nothing else of kvferry.
Tested with 0.32.0.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import msgspec

from ..peers.answering import answer_of, take_output
from .steps import BLOCK_TOKENS, BLOCKS, POOL, Round, Subject, run_round

__all__ = ["Theirs", "main"]

# A round that takes longer ends the process, wherever it hangs: nobody else could.
ROUND_SECONDS = 300


class Theirs(Subject):
    def __init__(self) -> None:
        utils, kinds = (
            import_module(f"vllm.v1.{name}")
            for name in ("core.kv_cache_utils", "kv_cache_interface")
        )
        digest = import_module("vllm.utils.hashing").sha256
        utils.init_none_hash(digest)
        self._hasher = utils.get_request_block_hasher(BLOCK_TOKENS, digest)
        self._request = import_module("vllm.v1.request").Request
        self._sampling = import_module("vllm.sampling_params").SamplingParams(max_tokens=1)
        dtype = import_module("torch").bfloat16
        spec = kinds.FullAttentionSpec(
            block_size=BLOCK_TOKENS, num_kv_heads=8, head_size=128, dtype=dtype
        )
        groups = [kinds.KVCacheGroupSpec(["layer"], spec)]
        self._manager = import_module("vllm.v1.core.kv_cache_manager").KVCacheManager(
            kinds.KVCacheConfig(1 + POOL, [], groups),
            max_model_len=POOL * BLOCK_TOKENS,
            scheduler_block_size=BLOCK_TOKENS,
            hash_block_size=BLOCK_TOKENS,
        )
        self._pool = self._manager.block_pool

    def requested(self, name: str, tokens: list[int]) -> Any:
        return self._request(name, tokens, self._sampling, None, block_hasher=self._hasher)

    def hashes(self) -> list[bytes]:
        return list(self.request.block_hashes)

    def allocate(self) -> None:
        self._blocks = self._pool.get_new_blocks(BLOCKS)

    def cache(self) -> None:
        self._pool.cache_full_blocks(self.request, self._blocks, 0, BLOCKS, BLOCK_TOKENS, 0)

    def look_up(self) -> None:
        found = []
        for hash_ in self.request.block_hashes:
            cached = self._pool.get_cached_block(hash_, [0])
            if cached is None:
                break
            found.append(cached[0])
        self.found.append(len(found))

    def free(self) -> None:
        self._pool.free_blocks(reversed(self._blocks))

    def touch(self) -> None:
        self._pool.touch(self._blocks)

    def hit(self) -> None:
        self._hit, self._tokens, *_ = self._manager.get_computed_blocks(self.request)
        self.found.append(self._tokens // BLOCK_TOKENS)

    def place(self) -> None:
        new = self.request.num_tokens - self._tokens
        placed = self._manager.allocate_slots(self.request, new, self._tokens, self._hit)
        assert placed is not None

    def end(self) -> None:
        self._manager.free(self.request)


def main(name: str) -> None:
    """Answer until nobody asks any more: first with the version, then each round."""
    answers = take_output()
    made: list[Theirs] = []

    def start() -> str:
        made.append(Theirs())
        gc.collect()
        gc.freeze()  # as its engine does before it serves
        said: str = import_module(name).__version__
        return said

    def say(carry_out: Callable[[], object]) -> None:
        signal.alarm(ROUND_SECONDS)
        answers.write(msgspec.json.encode(answer_of(carry_out)) + b"\n")
        answers.flush()
        signal.alarm(0)

    say(start)
    for line in sys.stdin.buffer:
        say(partial(run_round, made[0], msgspec.json.decode(line, type=Round)))
    os._exit(0)  # its threads may still run: no destructors
