"""Where objects are, and copying, moving and clearing them, between two segments."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from .conftest import Other
from .town import MIB, SIZE, until

VALUE = bytes(range(256)) * 64


@pytest.fixture
def key(store: Any) -> str:
    """Of an object that the own segment alone has."""
    store.remove("here", True)
    assert store.put("here", VALUE) == 0
    until(lambda: names(store, "here") == {store.get_hostname()})
    return "here"


def names(store: Any, key: str) -> set[str]:
    found = store.get_replica_desc(key)
    for each in found:
        buffer = each.get_memory_descriptor().buffer_descriptor
        assert (each.status.name, buffer.size) == ("COMPLETE", len(VALUE))
        assert (each.is_memory_replica(), each.is_disk_replica()) == (True, False)
        with pytest.raises(RuntimeError):
            each.get_disk_descriptor()
    return {each.get_memory_descriptor().buffer_descriptor.transport_endpoint for each in found}


def test_copied_and_cleared(store: Any, other: Other, key: str) -> None:
    both = {store.get_hostname(), other.name}
    task, code = store.create_copy_task(key, [other.name])
    assert code == 0
    found, code = store.query_task(task)
    assert (found.id, found.type.name, found.status.name, code) == (
        task,
        "REPLICA_COPY",
        "SUCCESS",
        0,
    )
    assert found.created_at_ms_epoch <= found.last_updated_at_ms_epoch
    until(lambda: names(store, key) == both)
    assert store.batch_replica_clear([key, "no"], store.get_hostname()) == [key]
    until(lambda: names(store, key) == {other.name})
    assert store.get(key) == VALUE  # from the other process
    assert store.is_exist(key) == 1
    assert store.batch_replica_clear([key]) == []  # it was just asked for
    assert other.remove(key, True) == 0


def test_moved(store: Any, other: Other, key: str) -> None:
    task, code = store.create_move_task(key, store.get_hostname(), other.name)
    found, _ = store.query_task(task)
    assert (code, found.type.name, found.status.name) == (0, "REPLICA_MOVE", "SUCCESS")
    until(lambda: names(store, key) == {other.name})
    assert store.get(key) == VALUE


def test_what_cannot_be_carried_out(store: Any, other: Other, key: str) -> None:
    nothing = (0, 0)
    assert store.create_copy_task(key, ["127.0.0.1:9"]) == (nothing, -600)
    assert store.create_copy_task(key, []) == (nothing, -600)
    assert store.create_copy_task("no", [other.name]) == (nothing, -704)
    assert store.create_move_task("no", store.get_hostname(), other.name) == (nothing, -704)
    assert store.query_task((1, 2)) == (None, -1400)
    assert store.get_replica_desc("no") == []
    assert list(store.batch_get_replica_desc([key, "no"])) == [key]
    assert store.batch_replica_clear([key], "127.0.0.1:9") == []


def test_replicas_and_preferred_segments(store: Any, other: Other) -> None:
    from mooncake.store import ReplicateConfig

    config = ReplicateConfig()
    config.replica_num = 2
    assert store.put("twice", VALUE, config) == 0
    until(lambda: names(store, "twice") == {store.get_hostname(), other.name})
    config = ReplicateConfig()
    config.preferred_segment = other.name
    assert store.put("there", VALUE, config) == 0
    config.preferred_segments, config.preferred_segment = ["127.0.0.1:9"], "nobody"
    assert store.put("anywhere", VALUE, config) == 0
    until(lambda: names(store, "there") == {other.name})
    assert names(store, "anywhere")
    assert other.batch_is_exist(["there", "twice"]) == [1, 1]


def test_another_segment_of_the_same_process(store: Any) -> None:
    assert store.mount_segment("/tmp/file", MIB) == {"ret": -1012, "segment_ids": []}
    assert store.allocate_and_mount_segment(0)["ret"] == -1
    said = store.allocate_and_mount_segment(1000)
    assert (said["ret"], said["allocated_size"]) == (0, SIZE)
    (name,) = said["segment_ids"]
    assert re.fullmatch(r"[0-9]+-[0-9]+", name)
    value = np.ones(4 * MIB, np.uint8)
    keys = [f"many-{at}" for at in range(6)]
    codes = store.batch_put_from(keys, [value.ctypes.data] * 6, [4 * MIB] * 6)
    assert codes == [0] * 6  # more than the first one holds
    assert store.unmount_and_free_segment([name]) == 0
    assert store.unmount_segment([name]) == -1
    assert store.unmount_segment([]) == 0
    assert store.unmount_local_disk_segment() == 0
    assert store.remove_by_regex("^many-", True) >= 1
