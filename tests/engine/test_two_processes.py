"""Two processes move bytes over the fabric path."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest

import kvferry as kf
from kvferry.testing import Child

from .target import pattern, serve
from .window import window

MIB = 1 << 20
PATHS = ["fabric/inline", "fabric/host"]


def test_one_inline_write_of_64_kib(spawn: Callable[..., Child]) -> None:
    target = spawn(serve)
    address = target.hear()
    target.ask(["allocate", "kv", MIB])
    with kf.Engine() as engine:
        pool = engine.allocate("pool", MIB)
        window(pool)[:] = pattern(1, MIB)
        peer = engine.connect(address, path="fabric/inline")
        batch = kf.Batch.blocks(pool, [3], peer.regions["kv"], [5], 65536)
        report = peer.write(batch, timeout=5)
        assert (report.bytes, report.inline_copies, report.stream_submissions) == (65536, 1, 0)
        expected = zlib.crc32(pattern(1, MIB)[3 * 65536 : 4 * 65536])
        assert target.ask(["digest", "kv", 5 * 65536, 65536]) == expected
        zeros = zlib.crc32(bytes(5 * 65536))
        assert target.ask(["digest", "kv", 0, 5 * 65536]) == zeros
    target.result()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("streams", [1, 2, 8])
@pytest.mark.parametrize("block", [4096, 65536, 3 * 4096])
def test_scattered_blocks_both_ways(
    spawn: Callable[..., Child], path: str, streams: int, block: int
) -> None:
    size = 8 * MIB
    target = spawn(serve)
    address = target.hear()
    target.ask(["allocate", "kv", size])
    target.ask(["fill", "kv", 2])
    theirs = pattern(2, size)
    count = size // block
    ids = np.random.default_rng(3).permutation(count)
    half = count // 2
    with kf.Engine() as engine:
        pool = engine.allocate("pool", size)
        peer = engine.connect(address, path=path, streams=streams, inline_below=0)
        ours = window(pool)
        expected = np.zeros(size, np.uint8)
        read = kf.Batch.blocks(pool, ids[:half], peer.regions["kv"], ids[::-1][:half], block)
        report = peer.read(read, timeout=10)
        for here, there in zip(ids[:half], ids[::-1][:half], strict=True):
            expected[here * block : (here + 1) * block] = theirs[
                there * block : (there + 1) * block
            ]
        assert np.array_equal(ours, expected)
        assert report.bytes == half * block
        written = kf.Batch.blocks(pool, ids, peer.regions["kv"], np.arange(count), block)
        peer.write(written, timeout=10)
        moved = expected[: count * block].reshape(count, block)[ids].tobytes()
        assert target.ask(["digest", "kv", 0, count * block]) == zlib.crc32(moved)
        del ours
    target.result()
