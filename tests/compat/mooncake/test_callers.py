"""The calls of programs that use the module, in their order and with their arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kvferry.testing import Child
from kvferry.testing import spawn as start

from .peer import MIB, serve

BLOCK = 16 << 10
LAYERS = 8
BLOCKS = MIB // BLOCK

Spawn = Callable[..., Child]


@pytest.fixture
def engine() -> Iterator[Any]:
    from mooncake.engine import TransferEngine

    made = TransferEngine()
    yield made
    made.get_engine().close()


@pytest.fixture
def layers() -> list[Any]:
    """The KV of a model, a layer each, every block filled with a number of its own."""
    numbers = np.arange(LAYERS * BLOCKS, dtype=np.uint64).astype(np.uint8)
    return [np.repeat(part, BLOCK) for part in numbers.reshape(LAYERS, BLOCKS)]


@pytest.fixture(scope="module")
def cache() -> Iterator[tuple[str, int]]:
    """A process that holds a MiB of 77s: its name, and where they lie."""
    with start(serve, "127.0.0.1", "P2PHANDSHAKE", MIB) as child:
        met = meet(child)
        child.ask("fill 77")
        yield met


def meet(child: Child) -> tuple[str, int]:
    said = child.hear()
    return f"127.0.0.1:{said['port']}", said["registered"]


def test_vllm(engine: Any, layers: list[Any], spawn: Spawn) -> None:
    """A prefill instance pushes the blocks of several requests at once, from a pool of threads."""
    child = spawn(serve, "127.0.0.1", "P2PHANDSHAKE", LAYERS * MIB)
    name, there = meet(child)
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "") == 0
    assert isinstance(engine.get_rpc_port(), int)
    pointers = [layer.ctypes.data for layer in layers]
    assert engine.batch_register_memory(pointers, [layer.nbytes for layer in layers]) == 0

    def push(request: int) -> int:
        """Every tenth block, of every layer; the peer keeps them in the opposite order."""
        src, dst, lengths = [], [], []
        for layer, pointer in enumerate(pointers):
            for block in range(request, BLOCKS, 10):
                src.append(pointer + block * BLOCK)
                dst.append(there + layer * MIB + (BLOCKS - 1 - block) * BLOCK)
                lengths.append(BLOCK)
        return int(engine.batch_transfer_sync_write(name, src, dst, lengths))

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(push, range(10))) == [0] * 10
    got = np.zeros(MIB, np.uint8)
    assert engine.register_memory(got.ctypes.data, MIB) == 0
    for index, layer in enumerate(layers):
        theirs = there + index * MIB
        assert engine.transfer_sync_read(name, got.ctypes.data, theirs, MIB) == 0
        assert (got.reshape(BLOCKS, BLOCK)[::-1] == layer.reshape(BLOCKS, BLOCK)).all()
    assert engine.batch_unregister_memory(pointers) == 0


def test_lmcache(engine: Any, cache: tuple[str, int]) -> None:
    """A lookup hit elsewhere is pulled under a number, which is polled."""
    name, there = cache
    ours = np.zeros(MIB, np.uint8)
    here = ours.ctypes.data
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert engine.get_rpc_port() > 0
    assert engine.register_memory(here, MIB) == 0
    at = range(0, MIB, BLOCK)
    number = engine.batch_transfer_async_read(
        name, [here + each for each in at], [there + each for each in at], [BLOCK] * BLOCKS
    )
    assert 1 <= number < 1 << 63
    deadline = time.monotonic() + 20
    while (state := engine.transfer_check_status(number)) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert state == 1
    assert (ours == 77).all()
    assert engine.batch_transfer_async_read(name, [here], [there + MIB], [BLOCK]) == 0
    assert engine.unregister_memory(here) == 0


def test_sglang(engine: Any, layers: list[Any], spawn: Spawn) -> None:
    """Blocks are pushed; a decode instance that died fails, is probed until it is back, and is
    pushed to again."""
    child = spawn(serve, "127.0.0.1", "P2PHANDSHAKE", MIB)
    name, there = meet(child)
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "mlx5_0,mlx5_1") == 0
    first, second = (layer.ctypes.data for layer in layers[:2])
    assert engine.register_memory(first, MIB) == 0
    assert engine.batch_register_memory([second], [MIB]) == 0
    assert engine.get_engine() is not None
    assert engine.send_probe(name) == 0
    assert engine.transfer_sync_write(name, first, there, BLOCK) == 0
    assert engine.batch_transfer_sync_write(name, [second], [there + BLOCK], [BLOCK]) == 0
    assert child.ask("bytes")[0] == 0
    child.kill()
    assert engine.send_probe(name) == -102
    assert engine.batch_transfer_sync_write(name, [second], [there + BLOCK], [BLOCK]) == -1
    assert engine.send_probe(name) == -102
    again = spawn(serve, name, "P2PHANDSHAKE", MIB)
    assert meet(again)[0] == name
    assert engine.send_probe(name) == 0
    assert engine.send_probe("not a name") == -101


def test_a_probe_of_a_peer_that_stands_still(
    engine: Any, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MC_HANDSHAKE_CONNECT_TIMEOUT", "0.3")
    child = spawn(serve, "127.0.0.1", "P2PHANDSHAKE", MIB)
    name, _ = meet(child)
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert engine.send_probe(name) == 0
    child.stop()
    assert engine.send_probe(name) == -102
    child.resume()
    assert engine.send_probe(name) == 0


def test_a_peer_that_stands_still_is_not_asked_for_longer_than_a_transfer_may_take(
    engine: Any, layers: list[Any], spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mooncake import moves

    monkeypatch.setattr(moves, "ASK_SECONDS", 0.2)
    child = spawn(serve, "127.0.0.1", "P2PHANDSHAKE", MIB)
    name, there = meet(child)
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    here = layers[0].ctypes.data
    assert engine.register_memory(here, MIB) == 0
    assert engine.transfer_sync_write(name, here, there, BLOCK) == 0
    child.stop()
    begun = time.monotonic()
    assert engine.transfer_sync_write(name, here, 4096, BLOCK) == -1  # nothing we have heard of
    assert engine.transfer_submit_write(name, here, 4096, BLOCK) == 0
    assert time.monotonic() - begun < 5
    child.resume()
    assert engine.transfer_sync_write(name, here, there, BLOCK) == 0


def test_vllm_ascend(engine: Any, cache: tuple[str, int]) -> None:
    """A decode instance pulls, one buffer registered at a time; below 0 is a failure."""
    name, there = cache
    ours = np.zeros((2, MIB // 2), np.uint8)
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "ascend", "npu:0") == 0
    for half in ours:
        assert engine.register_memory(half.ctypes.data, half.nbytes) == 0
    read = engine.batch_transfer_sync_read
    local = [half.ctypes.data for half in ours]
    assert read(name, local, [there, there + MIB // 2], [MIB // 2] * 2) >= 0
    assert (ours == 77).all()
    assert read(name, [local[0]], [there + MIB], [1]) < 0
