"""What each call returns where something is the matter: what Mooncake does, or why not."""

from __future__ import annotations

import logging
import mmap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from .conftest import Other
from .town import MIB, SIZE, made, until

NOWHERE = 4096  # nothing is ever mapped there


def config_with(**fields: Any) -> Any:
    from mooncake.store import ReplicateConfig

    config = ReplicateConfig()
    for name, value in fields.items():
        setattr(config, name, value)
    return config


def test_values(store: Any) -> None:
    assert store.put("k", b"abc") == 0
    assert store.put("k", b"xyz") == 0
    assert store.get("k") == b"abc"
    assert (store.get("no"), store.get_buffer("no"), store.get_size("no")) == (b"", None, -704)
    assert (store.put("e", b""), store.put("", b"a"), store.put_parts("p")) == (-600,) * 3
    assert store.put("array", np.arange(6, dtype=np.int16).reshape(2, 3)) == 0
    assert store.get("array") == np.arange(6, dtype=np.int16).tobytes()
    assert store.put_parts("parts", b"ab", b"", np.arange(3, dtype=np.uint8)) == 0
    assert store.get_batch(["parts", "no"]) == [b"ab\0\1\2", b""]
    assert store.put_batch(["b1", "b2"], [b"1", b"22"]) == 0
    assert store.put_batch(["b3", "b4"], [b"1"]) == -600
    assert store.put_batch(["b5", "b6"], [b"", b"x"]) == -600
    assert store.batch_is_exist(["b1", "b5", "b6"]) == [1, 0, 0]
    assert store.put_batch([], []) == 0
    assert (store.is_exist("k"), store.is_exist("no"), store.is_exist("")) == (1, 0, 0)
    assert store.batch_is_exist([]) == []
    assert store.put(b"\xff key", b"1") == 0
    assert store.get(b"\xff key") == b"1"


def test_wrong_types_raise(store: Any) -> None:
    for call in (
        lambda: store.put("k", "text"),
        lambda: store.put(3, b"1"),
        lambda: store.put("k", b"1", None),
        lambda: store.get_into("k", "here", 3),
        lambda: store.batch_is_exist("keys"),
        lambda: store.put("k", b"1", bogus=1),
    ):
        with pytest.raises(TypeError):
            call()


def test_addresses(store: Any, memory: Any) -> None:
    here = memory.ctypes.data
    assert store.put("k", b"abc") == 0
    assert store.register_buffer(here, MIB) == -600
    assert store.register_buffer(here + 100, 100) == -600
    assert (store.register_buffer(0, 10), store.register_buffer(here, 0)) == (-600, -600)
    assert store.register_buffer(NOWHERE, 10) == -600
    assert store.unregister_buffer(12345) == -600
    assert (store.get_into("k", here, 100), bytes(memory[:4])) == (3, b"abc\x03")
    assert (store.get_into("k", here, 2), store.get_into("k", here, 0)) == (-600, -600)
    assert (store.get_into("no", here, 10), store.get_into("k", NOWHERE, 10)) == (-704, -600)
    assert store.put_from("no", NOWHERE, 10) == -600
    assert store.put_from("no", here, 0) == -600  # Mooncake says 0, and stores nothing
    assert store.batch_put_from(["f1", "f2", "f3"], [here] * 3, [10, 0, 5]) == [0, -600, 0]
    assert store.batch_put_from(["x"], [here, here], [1, 1]) == [-600]
    assert store.batch_get_into(["f1", "no", "k"], [here] * 3, [10, 10, 2]) == [10, -704, -600]
    assert store.batch_get_into(["f1", "k"], [NOWHERE, here], [10, 3]) == [-600, 3]
    unregistered = np.zeros(10, np.uint8)
    assert store.get_into("k", unregistered.ctypes.data, 10) == 3
    assert bytes(unregistered[:4]) == b"abc\0"
    assert store.put_from("unregistered", unregistered.ctypes.data, 3) == 0
    assert store.get("unregistered") == b"abc"
    place, size = np.int64(unregistered.ctypes.data), np.uint64(10)
    assert (store.get_into("f3", place, size), unregistered[4]) == (5, memory[4])


def test_empty_keys(store: Any, memory: Any) -> None:
    """No object has one, and it fails alone."""
    here = memory.ctypes.data
    assert (store.upsert_from("", here, 3), store.put_batch(["", "a"], [b"1", b"2"])) == (-600,) * 2
    assert store.batch_put_from(["", "e"], [here] * 2, [3, 3]) == [-600, 0]
    assert store.batch_upsert_from([b"", "e"], [here + 1] * 2, [3, 3]) == [-600, 0]
    assert store.batch_put_from_multi_buffers([""], [[here]], [[3]]) == [-600]
    assert store.get_batch(["", "a", "e"]) == [b"", b"", b"\1\2\3"]


def test_memory_that_may_only_be_read(store: Any) -> None:
    pages = np.frombuffer(mmap.mmap(-1, 4096, prot=mmap.PROT_READ), np.uint8)
    there = pages.ctypes.data
    assert store.register_buffer(there, 4096) == -600
    assert store.put_from("zeros", there, 10) == 0
    assert (store.get_into("zeros", there, 10), store.get("zeros")) == (-600, bytes(10))
    assert store.batch_get_into(["zeros"], [there], [10]) == [-600]


def test_pieces(store: Any, memory: Any) -> None:
    here = memory.ctypes.data
    put, get = store.batch_put_from_multi_buffers, store.batch_get_into_multi_buffers
    places = [[here, here + 10], [here], [], [here, NOWHERE]]
    assert put(["m1", "m2", "m3", "m4"], places, [[5, 6], [7], [], [1, 1]]) == [0, 0, -600, -600]
    assert store.get("m1") == bytes([0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 15])
    assert put(["m5"], [[here, here]], [[5]]) == [-600]
    assert put(["m5", "m6"], [[here, here], [here]], [[5, 0], [0]]) == [0, -600]
    to = here + 4096
    rows = [[to, to + 100], [to], [to + 200], [to + 300]]
    assert get(["m1", "no", "m1", "m2"], rows, [[4, 20], [7], [3], [50]]) == [11, -704, -600, 7]
    assert bytes(memory[4096:4100]) == bytes(range(4))
    assert bytes(memory[4196:4204]) == bytes([4, 10, 11, 12, 13, 14, 15]) + bytes([4203 % 256])


def test_room(store: Any) -> None:
    """A value is refused that is larger than any segment, and one for which others are leased."""
    sizes = [SIZE * 2, 3 * MIB]
    big = np.ones(sizes[0], np.uint8)
    assert store.put("big", big) == -200
    keys = [f"room-{at}" for at in range(20)]
    for key in keys:
        if code := store.put(key, big[: sizes[1]]):
            break
        store.is_exist(key)  # leases it, unless it was above the watermark and has left already
    assert code == -200
    assert store.put_batch(["room-x"], [big[: sizes[1]]]) == -200
    assert store.batch_put_from(["room-x"], [big.ctypes.data], [sizes[1]]) == [-200]
    assert store.remove_by_regex("^room-", True) > 3


def test_removing(store: Any, other: Other) -> None:
    assert store.put_batch(["r1", "r2", "x"], [b"1"] * 3) == 0
    assert store.is_exist("r1") == 1
    assert (store.remove("r1"), store.remove("r2"), store.remove("r2")) == (-706, 0, -704)
    assert store.remove("r1", True) == 0
    assert store.batch_remove(["x", "no"]) == [0, -704]
    assert store.put_batch(["ra", "rb", "xa"], [b"1"] * 3) == 0
    assert store.remove_by_regex("[") == -600
    assert store.remove_by_regex("^r.$") == 2
    until(lambda: other.is_exist("xa"))
    until(lambda: other.remove_all(True) >= 0 and not store.is_exist("xa"))


def test_configs(store: Any, memory: Any) -> None:
    from mooncake.store import SoftPinAction

    one, many = [memory.ctypes.data], [[memory.ctypes.data]]
    same = config_with(prefer_alloc_in_same_node=True)
    assert store.put("c", b"1", same) == -600
    assert store.batch_put_from(["c"], one, [1], same) == [-600]
    assert store.batch_put_from_multi_buffers(["c"], many, [[1]], same) == [0]
    for wrong in (
        config_with(replica_num=0),
        config_with(soft_pin_ttl_ms=1),
        config_with(soft_pin_action=SoftPinAction.ENABLE, soft_pin_ttl_ms=86_400_001),
        config_with(group_ids=["a", "b"]),
    ):
        assert store.put("d", b"1", wrong) == -600
        assert store.put_batch(["d"], [b"1"], wrong) == -600
        assert store.batch_put_from(["d"], one, [1], wrong) == [-600]
    assert store.put("d", b"1", config_with(nof_replica_num=1)) == -1012
    assert store.is_exist("d") == 0


def test_pinned_objects_stay(store: Any) -> None:
    from mooncake.store import SoftPinAction

    value = np.ones(MIB, np.uint8)
    hard = config_with(with_hard_pin=True, group_ids=["g"])
    soft = config_with(soft_pin_action=SoftPinAction.ENABLE, soft_pin_ttl_ms=60_000)
    assert (store.put("hard", value, hard), store.put("soft", value, soft)) == (0, 0)
    for at in range(40):
        assert store.put(f"pass-{at}", value) == 0
    assert store.batch_is_exist(["hard", "soft"]) == [1, 1]
    assert store.remove_all(True) > 0
    assert store.batch_is_exist(["hard", "soft"]) == [0, 0]


def test_who_is_not_pinned_is_told_of(
    store: Any, other: Other, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mooncake")
    value, hard = np.ones(6 * MIB, np.uint8), config_with(with_hard_pin=True)
    assert [store.put(f"pin-{at}", value, hard) for at in range(2)] == [0, 0]
    assert "not pinned" not in caplog.text
    assert store.put("pin-2", value, hard) == 0  # at the other node
    assert "1 of 1 objects are not pinned" in caplog.text
    store.remove_all(True)


def test_upserts(store: Any, memory: Any) -> None:
    here = memory.ctypes.data
    assert (store.upsert("u", b"123"), store.upsert("u", b"45678")) == (0, 0)
    assert (store.get("u"), store.is_exist("u")) == (b"45678", 1)
    assert store.upsert("u", b"") == -600
    assert store.get("u") == b"45678"
    assert (store.upsert_parts("u", b"1", b"2"), store.get("u")) == (0, b"12")
    assert (store.upsert_batch(["u", "v"], [b"x", b"y"]), store.get_batch(["u", "v"])) == (
        0,
        [b"x", b"y"],
    )
    assert (store.upsert_from("u", here, 3), store.get("u")) == (0, b"\0\1\2")
    assert store.batch_upsert_from(["u", "v"], [here + 5, here], [2, 0]) == [0, -600]
    assert store.get_batch(["u", "v"]) == [b"\5\6", b"y"]
    assert store.put_from_with_metadata("meta", here, here + 10, 5, 3) == 0
    assert store.get("meta") == bytes([10, 11, 12, 0, 1, 2, 3, 4])


def test_before_setup_and_after_close(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing crashes, and nothing is invented."""
    caplog.set_level(logging.CRITICAL, "mooncake")
    from mooncake.store import MooncakeDistributedStore

    closed = made(address)
    assert (closed.close(), closed.close()) == (0, 0)
    for store in (MooncakeDistributedStore(), closed):
        assert (store.health_check(), store.close()) == (1, 0)
        assert (store.get("k"), store.get_batch(["k"]), store.get_buffer("k")) == (b"", [b""], None)
        assert (store.put("k", b"1"), store.put_batch(["k"], [b"1"])) == (-600, -600)
        assert (store.upsert("k", b"1"), store.put_parts("k", b"1")) == (-600, -600)
        assert (store.is_exist("k"), store.batch_is_exist(["k"])) == (0, [-600])
        assert (store.get_size("k"), store.remove("k"), store.remove_all()) == (-600,) * 3
        assert (store.register_buffer(1, 1), store.unregister_buffer(1)) == (-600, -600)
        assert (store.put_from("k", 1, 1), store.get_into("k", 1, 1)) == (-600, -600)
        assert store.batch_put_from_multi_buffers(["k"], [[1]], [[1]]) == [-600]
        assert store.batch_get_into(["k"], [1], [1]) == [-600]
        assert store.batch_get_session_start(["k"]) == store.batch_put_session_end(["k"]) == []
        assert store.batch_put_session_start(["k"], [1]) == []
        assert store.batch_get_session_end(["k"]) == -1
        assert store.get_into_ranges([1], [["k"]], [[[0]]], [[[0]]], [[[1]]]) == [[[-600]]]
        assert (store.get_replica_desc("k"), store.batch_replica_clear(["k"])) == ([], [])
        assert store.create_copy_task("k", ["a:1"]) == ((0, 0), -600)
        assert store.allocate_and_mount_segment(MIB)["ret"] == -1
        assert (store.get_hostname(), store.alloc_from_mem_pool(10)) == ("", 0)
        assert store.init_all("tcp", "", MIB) == -600


@pytest.mark.parametrize(
    ("threads", "times"), [(2, 1), pytest.param(8, 10, marks=pytest.mark.slow)]
)
def test_threads_while_it_is_closed_and_set_up_again(
    address: str, caplog: pytest.LogCaptureFixture, threads: int, times: int
) -> None:
    """Whatever the moment, calls return a value that was put, or a failure."""
    caplog.set_level(logging.CRITICAL, "mooncake")
    store, over = made(address), threading.Event()

    def work(number: int) -> int:
        mine = np.full(3000, number, np.uint8)
        there, done = mine.ctypes.data, 0
        while not over.is_set():
            key = f"stress-{number}-{done}"
            assert store.put_from(key, there, 3000) in GONE | {0}
            assert store.batch_put_from([key], [there], [3000])[0] in GONE | {0}
            assert store.is_exist(key) in (0, 1)
            assert store.get(key) in (b"", mine.tobytes())
            assert store.batch_get_into([key], [there], [3000])[0] in GONE | {3000, -704}
            assert (mine == number).all()
            assert store.register_buffer(there, 3000) in (0, -600)
            assert store.unregister_buffer(there) in (0, -600)
            done += 1
        return done

    with ThreadPoolExecutor(threads) as pool:
        workers = [pool.submit(work, number + 1) for number in range(threads)]
        try:
            for _ in range(times):
                at = ("127.0.0.1", "P2PHANDSHAKE", SIZE, MIB, "tcp", "", address)
                assert store.setup(*at) == 0
            store.close()
        finally:
            over.set()
        assert all(worker.result() for worker in workers)


# What a call may return whose client was closed under it.
GONE = {-600, -900}
