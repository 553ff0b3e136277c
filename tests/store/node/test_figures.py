"""What a node counts: reads, misses by cause, users, bytes."""

from __future__ import annotations

import time
from collections.abc import Callable

from kvferry.store import Cause, Store
from tests.store.settings import Setting

PAGE = bytes(4096)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def misses(store: Store) -> dict[str, int]:
    return {cause: count for cause, count in store.stats()["misses"].items() if count}


def test_misses_have_causes(setting: Setting) -> None:
    store = setting.user
    store.put("removed", PAGE)
    store.remove("removed")
    store.put("expired", PAGE, ttl=0.01)
    until(lambda: not store.exists("expired"))
    store.put("evicted", PAGE)
    for start in range(0, 400, 50):
        store.put_batch([f"key {start + at}" for at in range(50)], [PAGE] * 50)
    assert store.why("evicted").cause is Cause.EVICTED
    assert misses(store) == {}
    keys = ["removed", "expired", "evicted", "never", "never either"]
    assert store.get_batch(keys) == [None] * 5
    for key in keys:
        assert store.get_into(key, bytearray(1)) is None
    wanted = {"removed": 2, "expired": 2, "evicted": 2, "never": 4}
    until(lambda: misses(store) == wanted)
    store.close()
    if setting.way != "embedded":
        assert misses(setting.owner) == wanted


def test_reads_are_counted(setting: Setting) -> None:
    store = setting.user
    store.put_batch(["a", "b"], [b"x" * 100, b"y" * 50])
    assert store.get("a") == b"x" * 100
    store.get_batch_into(["a", "b", "no"], [bytearray(100) for _ in range(3)])
    store.get_batch_into(["a"], [bytearray(1)])
    with store.view("b"):
        pass
    reads = store.stats()["reads"]
    assert reads["hits"] >= 4
    assert reads["bytes"] >= 100 + 100 + 50
    assert reads["absent"] == 1
    if setting.way != "far":
        assert reads["too_small"] == 1
    store.close()
    if setting.way != "embedded":
        assert setting.owner.stats()["reads"] == reads


def test_users_are_counted(setting: Setting) -> None:
    expected = 1 if setting.way == "embedded" else 2
    assert setting.owner.stats()["users"] == {"users": expected, "silent": 0, "held_lines": 0}
    with setting.another():
        assert setting.owner.stats()["users"]["users"] == expected + 1
    assert setting.owner.stats()["users"]["users"] == expected


def test_bytes_are_counted(setting: Setting) -> None:
    store = setting.user
    store.put("a", bytes(1000))
    usage = store.stats()["usage"]
    assert usage["count"] == 1
    assert usage["objects"] == 1024
    assert usage["capacity"] == 1 << 20
    assert (
        sum(usage[name] for name in ("free", "objects", "reserved", "quarantined", "deferred"))
        == (usage["capacity"])
    )
