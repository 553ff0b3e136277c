"""Threads that want the same at the same moment, and what is left behind by none of them."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from kvferry.errors import ClosedError

from .town import MIB, SIZE, made

THREADS = 8


def test_one_session_of_a_key(store: Any) -> None:
    """Who is told 0 has it alone, and of a session that was refused no memory is kept."""
    buffer = np.arange(10, dtype=np.uint8)
    place, more = buffer.ctypes.data, Barrier(THREADS)

    def start(key: str) -> int:
        more.wait()
        code: int = store.batch_put_session_start([key], [100])[0]
        return code

    with ThreadPoolExecutor(THREADS) as pool:
        for key in ("a", "b", "c"):
            codes = sorted(pool.map(start, [key] * THREADS))
            assert codes == [-600] * (THREADS - 1) + [0]
    assert store.batch_put_session_revoke(["a", "b", "c"]) == [0, 0, 0]
    assert store.batch_put_session_start(["d", "d", ""], [10, 10, 10]) == [0, -600, -600]
    assert store.batch_put_from_multi_buffer_ranges(["d"], [[place]], [[10]], [[0]]) == [10]
    assert store.batch_put_session_end(["d"]) == [0]
    assert store.get("d") == buffer.tobytes()
    # so much only who holds nothing else may reserve
    assert store.batch_put_session_start(["large"], [SIZE // 2]) == [0]
    assert store.batch_put_session_revoke(["large"]) == [0]
    assert store.batch_put_session_revoke(["large"]) == [-600]


def test_setup_by_several_threads(address: str) -> None:
    """One of the clients stays, the others are closed."""
    from mooncake.store import MooncakeDistributedStore

    store, at_once = MooncakeDistributedStore(), Barrier(3)

    def setup(_: int) -> int:
        at_once.wait()
        at = ("127.0.0.1", "P2PHANDSHAKE", MIB, MIB, "tcp", "", address)
        code: int = store.setup(*at)
        return code

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(setup, range(3))) == [0, 0, 0]
    assert (store.put("k", b"1"), store.get("k"), store.close()) == (0, b"1", 0)


def test_segment_of_a_store_that_is_closed_meanwhile(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "mooncake")
    store, nodes = made(address), []
    make = store._client.node

    def node(size: int) -> Any:
        nodes.append(make(size))
        store.close()
        return nodes[0]

    store._client.node = node
    assert store.allocate_and_mount_segment(MIB) == {
        "ret": -1,
        "segment_ids": [],
        "allocated_size": 0,
    }
    with pytest.raises(ClosedError):
        nodes[0].stats()
