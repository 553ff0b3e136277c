"""Layer by layer, and ranges of values: contents compared, between processes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .conftest import Other
from .town import MIB, until

LAYER = 4096
LAYERS = 4


def test_a_value_is_there_once_all_layers_are(store: Any, other: Other, memory: Any) -> None:
    """Two keys are saved a layer at a time, the second in two halves; another process finds them
    after the end, and reads the layers backwards."""
    here, keys = memory.ctypes.data, ["a", "b"]
    start = store.batch_put_session_start([*keys, "none"], [LAYER * LAYERS] * 2 + [0])
    assert start == [0, 0, -600]
    assert store.batch_put_session_start(keys, [LAYER] * 2) == [-600] * 2
    half = LAYER // 2
    for layer in range(LAYERS):
        at = layer * LAYER
        places = [[here + at + 1], [here + at + 2, here + at + 2 + half]]
        written = store.batch_put_from_multi_buffer_ranges(
            keys, places, [[LAYER], [half, half]], [[at], [at, at + half]]
        )
        assert written == [LAYER] * 2
        assert store.batch_is_exist(keys) == [0, 0]
        assert store.batch_put_session_end(["a"]) == ([-600] if layer < LAYERS - 1 else [0])
    assert store.batch_put_session_end(["b", "zz"]) == [0, -600]
    until(lambda: other.batch_is_exist(keys) == [1, 1])
    want = [memory[shift:][: LAYER * LAYERS].tobytes() for shift in (1, 2)]
    assert store.get_batch(keys) == want
    assert other.batch_get_session_start([*keys, "no"]) == [0, 0, -704]
    for layer in reversed(range(LAYERS)):
        at = layer * LAYER
        got = other.batch_get_into_multi_buffer_ranges(
            keys, [[other.memory + at], [other.memory + MIB // 2 + at]], [[LAYER]] * 2, [[at]] * 2
        )
        assert got == [LAYER] * 2
    assert other.batch_get_session_end(keys) == 0
    copies = other.batch_put_from(
        ["a2", "b2"], [other.memory, other.memory + MIB // 2], [LAYER * LAYERS] * 2
    )
    assert copies == [0, 0]
    until(lambda: store.batch_is_exist(["a2", "b2"]) == [1, 1])
    assert store.get_batch(["a2", "b2"]) == want


def test_a_session_that_goes_wrong(store: Any, memory: Any) -> None:
    here = memory.ctypes.data
    ranges, writes = (
        store.batch_get_into_multi_buffer_ranges,
        store.batch_put_from_multi_buffer_ranges,
    )
    assert store.put("k", bytes(range(11))) == 0
    assert ranges(["k"], [[here]], [[2]], [[0]]) == [-600]
    assert store.batch_get_session_start(["k", "no"]) == [0, -704]
    assert ranges(["k", "k"], [[here, here + 10], [here]], [[2, 30], [3]], [[0, 5], [0]]) == [
        -600,
        3,
    ]
    assert ranges(["no"], [[here]], [[2]], [[0]]) == [-600]
    assert ranges(["k"], [[here]], [[2]], []) == [-600]
    assert ranges(["k"], [[]], [[]], [[]]) == [0]
    assert ranges(["k", "k"], [[4096], [here]], [[2], [2]], [[0], [3]]) == [-600, 2]
    assert bytes(memory[:2]) == bytes([3, 4])
    assert store.batch_get_session_end(["k", "never"]) == 0
    assert ranges(["k"], [[here]], [[2]], [[0]]) == [-600]
    assert store.batch_put_session_start(["k", "s", "t"], [5, 10, 10]) == [-705, 0, 0]
    assert store.batch_put_session_start(["u"], [1, 2]) == [-600]
    assert writes(["s", "t"], [[here], [here]], [[5], [10]], [[8], [0]]) == [-600, 10]
    assert writes(["nobody"], [[here]], [[5]], [[0]]) == [-600]
    assert store.batch_put_session_end(["s", "t"]) == [-600, 0]
    assert store.batch_put_session_revoke(["s", "t"]) == [0, -600]
    assert store.batch_is_exist(["s", "t"]) == [0, 1]
    assert store.batch_put_session_start(["s"], [10]) == [0]  # and is left open


def test_ranges(store: Any, other: Other, memory: Any) -> None:
    """Ranges of objects of two processes, each to a place of its own in two buffers."""
    assert store.put("mine", bytes(range(100))) == 0
    assert other.put("theirs", ["bytes", list(range(100, 200))]) == 0
    until(lambda: store.is_exist("theirs"))
    two = np.zeros((2, 100), np.uint8)
    pointers = [row.ctypes.data for row in two]
    keys = [["mine", "no"], ["theirs", "mine"]]
    to = [[[0, 50], [60]], [[1, 2], [90]]]
    sources = [[[10, 20], [0]], [[5, 99], [95]]]
    sizes = [[[5, 6], [7]], [[1, 2], [5]]]
    said = store.get_into_ranges(pointers, keys, to, sources, sizes)
    assert said == [[[5, 6], [-704]], [[1, -600], [5]]]
    want = np.zeros((2, 100), np.uint8)
    want[0, :5], want[0, 50:56] = range(10, 15), range(20, 26)
    want[1, 1], want[1, 90:95] = 105, range(95, 100)
    assert (two == want).all()
    get = store.get_into_ranges
    assert get([4096], [["mine"]], [[[0]]], [[[1]]], [[[3]]]) == [[[-600]]]
    here = memory.ctypes.data
    bad = get([here, 4096], [["mine"], ["mine"]], [[[0]], [[0]]], [[[1]], [[1]]], [[[3]], [[3]]])
    assert bad == [[[3]], [[-600]]]
    assert get([here], [["mine"]], [[[0]]], [[[1, 2]]], [[[3]]]) == [[[-600]]]
    assert get([here, here], [["mine"]], [[[0]]], [[[1]]], [[[3]]]) == [[[-600]]]
    assert get([], [], [], [], []) == []
    before = memory[:20].copy()
    outside = get([here + 10], [["mine", "mine"]], [[[-1], [0]]], [[[0], [1]]], [[[3], [3]]])
    assert (outside, (memory[:20] == before).all()) == ([[[-600], [-600]]], True)


def test_buffers_of_a_pool(store: Any) -> None:
    from mooncake.store import BufferPool, MooncakeDistributedStore

    with np.testing.assert_raises(RuntimeError):
        BufferPool(MooncakeDistributedStore())
    pool = BufferPool(store, max_bytes=32 << 20, block_on_exhaustion=False, prewarm_size=9 << 20)
    with pool.buffer(1000) as lease:
        lease.buffer[:] = bytes(itertools.islice(itertools.cycle(range(256)), 1000))
        assert (store.put_from("leased", lease.ptr, 1000), lease.size) == (0, 1000)
        assert store.register_buffer(lease.ptr, 10) == -600
    with np.testing.assert_raises(BufferError):
        lease.buffer  # noqa: B018
    assert store.get("leased")[:300] == bytes(range(256)) + bytes(range(44))
    leases = [pool.acquire(8 << 20) for _ in range(4)]
    for block, seconds in ((False, None), (True, 0.01)):
        with np.testing.assert_raises(RuntimeError):
            pool.acquire(8 << 20, block, seconds)
    for wrong in (lambda: pool.acquire(100 << 20), pool.close):
        with np.testing.assert_raises(RuntimeError):
            wrong()
    seen = leases[0].buffer
    with np.testing.assert_raises(RuntimeError):
        leases[0].release()
    seen.release()
    for lease in leases:
        lease.release()
    pool.close()
