"""The calls of programs that use the module, in their order and with their arguments, between
processes."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from kvferry.testing import spawn

from .conftest import Other
from .town import BLOCK, MIB, SIZE, client, until

LAYERS = 4
BLOCKS = 8


def caches(seed: int = 0) -> list[Any]:
    """The KV of a model, a layer each, every block filled with a number of its own."""
    numbers = (np.arange(LAYERS * BLOCKS) + seed).astype(np.uint8)
    return [np.repeat(part, BLOCK) for part in numbers.reshape(LAYERS, BLOCKS)]


def scattered(layers: list[Any], blocks: list[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Where the bytes of each block are: a piece in each layer."""
    places = [[layer.ctypes.data + at * BLOCK for layer in layers] for at in blocks]
    return places, [[BLOCK] * len(layers) for _ in blocks]


def test_vllm(address: str, other: Other) -> None:
    """A prefill instance saves blocks that are gathered from all layers; another one, which
    contributes no memory, finds and loads them into blocks of its own."""
    from mooncake.store import MooncakeDistributedStore, ReplicateConfig

    saver, loader = MooncakeDistributedStore(), MooncakeDistributedStore()
    assert saver.setup("127.0.0.1", "P2PHANDSHAKE", SIZE, MIB, "rdma", "mlx5_0", address) == 0
    none = ("127.0.0.1", "P2PHANDSHAKE", 0, MIB, "rdma", "", address)
    assert loader.setup(*none, tenant_id="default") == 0
    layers, empty = caches(), [np.zeros(BLOCKS * BLOCK, np.uint8) for _ in range(LAYERS)]
    for layer in layers:
        assert saver.register_buffer(layer.ctypes.data, layer.nbytes) == 0
    for layer in empty:
        assert loader.register_buffer(layer.ctypes.data, layer.nbytes) == 0
    keys = [f"model@tp_rank:0@group:0@{block:064x}" for block in range(BLOCKS)]
    config = ReplicateConfig()
    config.preferred_segment = saver.get_hostname()
    config.group_ids = ["request"] * BLOCKS
    assert saver.batch_is_exist(keys) == [0] * BLOCKS
    codes = saver.batch_put_from_multi_buffers(
        keys, *scattered(layers, list(range(BLOCKS))), config
    )
    assert codes == [0] * BLOCKS
    until(lambda: loader.batch_is_exist(keys) == [1] * BLOCKS)
    assert loader.batch_is_exist([*keys, "no"]) == [1] * BLOCKS + [0]
    backwards = list(reversed(range(BLOCKS)))
    got = loader.batch_get_into_multi_buffers(keys, *scattered(empty, backwards))
    assert got == [LAYERS * BLOCK] * BLOCKS
    for layer, full in zip(empty, layers, strict=True):
        assert (layer.reshape(BLOCKS, BLOCK)[::-1] == full.reshape(BLOCKS, BLOCK)).all()
    descriptors = loader.batch_get_replica_desc(keys[:2])
    assert [descriptors[key][0].is_memory_replica() for key in keys[:2]] == [True, True]
    until(lambda: loader.remove_all(force=True) >= 0 and not any(saver.batch_is_exist(keys)))
    assert (loader.close(), saver.close()) == (0, 0)


def test_sglang(address: str, other: Other) -> None:
    """Pages of K and V, with the engine as eighth argument; a store that has no SSD keywords is
    told apart by what it raises."""
    from mooncake.engine import TransferEngine
    from mooncake.store import MooncakeDistributedStore, ReplicateConfig

    engine, store = TransferEngine(), MooncakeDistributedStore()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "") == 0
    first = ("127.0.0.1", "P2PHANDSHAKE", SIZE, 16 << 20, "rdma", "", address)
    with pytest.raises(TypeError, match="session_limit"):
        store.setup(*first, engine.get_engine(), session_limit=1)
    assert not store.setup(*first, engine.get_engine(), enable_ssd_offload=False, tenant_id="t")
    assert store.put("warmup", bytes(4096)) == 0
    assert store.is_exist("warmup") == 1
    assert store.get("warmup") == bytes(4096)
    pool = np.arange(4 * BLOCK, dtype=np.uint64).astype(np.uint8)
    assert store.register_buffer(pool.ctypes.data, pool.nbytes) == 0
    at = [pool.ctypes.data + page * BLOCK for page in range(4)]
    keys = [f"model_{page}_0_{part}" for page in "ab" for part in "kv"]
    assert store.batch_put_from(keys, at, [BLOCK] * 4, ReplicateConfig()) == [0] * 4
    pool[:] = 0
    assert store.batch_get_into(keys, at, [BLOCK] * 4) == [BLOCK] * 4
    assert (pool == np.arange(4 * BLOCK, dtype=np.uint64).astype(np.uint8)).all()
    # layer by layer, straight to where it is used
    halves = [[each + BLOCK // 2, each] for each in at]
    assert store.batch_get_session_start(keys) == [0] * 4
    got = store.batch_get_into_multi_buffer_ranges(
        keys, halves, [[BLOCK // 2] * 2] * 4, [[0, BLOCK // 2]] * 4
    )
    assert got == [BLOCK] * 4
    assert store.batch_get_session_end(keys) == 0
    with spawn(client, address, 0, "t") as child:
        tenant = Other(child)
        until(lambda: tenant.is_exist(keys[-1]))
        assert tenant.batch_is_exist(["warmup", *keys]) == [1] * 5
        assert other.batch_is_exist(["warmup", *keys]) == [0] * 5
        assert store.remove_all() == 0  # all of them were just asked for
        assert store.remove_all(True) == 5
    store.close()
    engine.get_engine().close()


@pytest.mark.parametrize("meta", [True, False])
def test_lmcache(address: str, other: Other, meta: bool) -> None:
    """A dict of strings in LMCache's spelling; chunks with a header of their own, or without."""
    from mooncake.store import MooncakeDistributedStore, ReplicateConfig

    store = MooncakeDistributedStore()
    said = {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": "16MB",
        "local_buffer_size": str(MIB),
        "protocol": "tcp",
        "device_name": "",
        "master_server_address": address,
        "transfer_timeout": "1",
    }
    assert store.setup(said) == 0
    config = ReplicateConfig()
    config.replica_num = 1
    config.preferred_segment = store.get_hostname()
    pool = np.arange(2 * BLOCK, dtype=np.uint64).astype(np.uint8)
    here = pool.ctypes.data
    assert store.register_buffer(here, pool.nbytes) == 0
    if meta:
        assert store.put_parts("chunk", b"header", pool.tobytes()) == 0
        found, missing = store.batch_get_buffer(["chunk", "no"])
        assert missing is None
        assert bytes(found) == b"header" + pool.tobytes()
        assert (found.size(), len(found)) == (len(pool) + 6,) * 2
        assert np.frombuffer(found, np.uint8).ctypes.data == found.ptr()
        until(lambda: other.get_size("chunk") == len(pool) + 6)
    else:
        assert store.put_from("chunk", here, 1000, config) == 0
        assert store.batch_put_from(["other"], [here], [BLOCK], config) == [0]
        assert store.is_exist("chunk")
        assert not store.is_exist("no")
        until(lambda: other.is_exist("chunk"))
        there = [other.memory] * 2
        assert other.batch_get_into(["chunk", "no"], there, [BLOCK] * 2) == [1000, -704]
        assert store.batch_get_into(["chunk"], [here + BLOCK], [BLOCK]) == [1000]
        assert (pool[BLOCK:][:1000] == pool[:1000]).all()
    assert store.unregister_buffer(here) == 0
    assert store.close() == 0


def test_vllm_ascend(address: str, other: Other) -> None:
    """Keywords alone, and memory that is registered on the engine."""
    from mooncake.engine import TransferEngine
    from mooncake.store import MooncakeDistributedStore, ReplicateConfig

    engine, store = TransferEngine(), MooncakeDistributedStore()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "ascend", "") == 0
    assert "enable_ssd_offload" in str(inspect.signature(store.setup))
    code = store.setup(
        local_hostname="127.0.0.1",
        metadata_server="P2PHANDSHAKE",
        global_segment_size=SIZE,
        local_buffer_size=0,
        protocol="ascend",
        rdma_devices="",
        master_server_addr=address,
        engine=engine.get_engine(),
    )
    assert code == 0
    layers = caches(seed=100)
    for layer in layers:
        assert engine.register_memory(layer.ctypes.data, layer.nbytes) == 0
    assert len(engine.get_engine().spans) == LAYERS
    config = ReplicateConfig()
    config.preferred_segment = store.get_hostname()
    config.prefer_alloc_in_same_node = True
    keys = [f"ascend-{block}" for block in range(BLOCKS)]
    places = scattered(layers, list(range(BLOCKS)))
    assert store.batch_put_from_multi_buffers(keys, *places, config) == [0] * BLOCKS
    for layer in layers:
        layer[:] = 0
    got = store.batch_get_into_multi_buffers(keys, *places)
    assert [0 if code > 0 else code for code in got] == [0] * BLOCKS
    for layer, full in zip(layers, caches(seed=100), strict=True):
        assert (layer == full).all()
        assert engine.unregister_memory(layer.ctypes.data) == 0
    assert len(engine.get_engine().spans) == 0
    store.close()
    engine.get_engine().close()
