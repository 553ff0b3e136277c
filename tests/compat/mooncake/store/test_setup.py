"""Becoming a client, in all forms; and without a master, or without anybody's memory."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from kvferry.testing import Child, spawn

from .conftest import Other
from .town import MIB, SIZE, forking, made, master, until


def test_sizes_and_spellings() -> None:
    from mooncake.store_setup import bytes_of, of_config

    sizes = {
        "16MB": 16 << 20,
        "4gb": 4 << 30,
        "10": 10,
        "1.5 GB": 3 << 29,
        "2GiB": 2 << 30,
        "7k": 7168,
    }
    assert {text: bytes_of(text) for text in sizes} == sizes
    for wrong in ("", "x", "4 xb", "-4", "1e9"):
        with pytest.raises(ValueError, match="no size"):
            bytes_of(wrong)
    least = {"local_hostname": "h", "metadata_server": "P2PHANDSHAKE"}
    setup = of_config(least)
    assert (setup.global_segment_size, setup.local_buffer_size, setup.protocol) == (
        16 << 20,
        16 << 20,
        "tcp",
    )
    assert setup.directory() == "kv://127.0.0.1:50051"
    for device, address in (
        ("device_name", "master_server_address"),
        ("rdma_devices", "master_server_addr"),
    ):
        setup = of_config({**least, device: "d", address: "[::1]:7", "tenant_id": "t"})
        assert (setup.devices, setup.directory(), setup.tenant) == ("d", "kv://[::1]:7", "t")
    assert of_config({**least, "enable_ssd_offload": "true", "ssd_offload_path": "/x"}).ssd == "/x"
    for wrong in ({}, {**least, "enable_ssd_offload": "1"}, {**least, "client_http_port": "x"}):
        with pytest.raises(ValueError, match=r"setup|ssd_offload_path|port"):
            of_config(wrong)


def test_what_cannot_be_set_up(
    address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.CRITICAL, "mooncake")
    from mooncake import store_client
    from mooncake.store import MooncakeDistributedStore

    monkeypatch.setattr(store_client, "PATIENCE", 0.1)

    store = MooncakeDistributedStore()
    at = ("127.0.0.1", "P2PHANDSHAKE")
    assert store.setup({}) == -600
    assert (
        store.setup(
            {"local_hostname": "127.0.0.1", "metadata_server": "P"} | {"global_segment_size": "x"}
        )
        == -600
    )
    assert store.setup(*at, SIZE, MIB, "tcp", "", "127.0.0.1:9") == -1
    assert store.setup(*at, SIZE, MIB, "tcp", "", "etcd://127.0.0.1:9") == -1
    assert store.setup_dummy(MIB, MIB, "127.0.0.1:9") == -1
    assert store.health_check() == 1
    for call in (
        lambda: store.setup(*at),
        lambda: store.setup(*at, SIZE, MIB, "tcp", "", address, engine=3),
        lambda: store.setup({}, SIZE),
        lambda: store.setup(local_hostname="127.0.0.1", bogus=1),
    ):
        with pytest.raises(TypeError):
            call()


def test_before_anybody_contributes_memory() -> None:
    """Nothing is there, and nothing can be put; once a segment is mounted both change."""
    with spawn(master) as child:
        address = child.hear()
        user = made(address, 0)
        assert (user.put("k", b"1"), user.put_batch(["k"], [b"1"])) == (-200, -200)
        assert (user.get("k"), user.is_exist("k"), user.batch_is_exist(["k"])) == (b"", 0, [0])
        assert (user.get_size("k"), user.remove("k"), user.remove_all()) == (-704, -704, 0)
        assert (user.health_check(), user.get_hostname()) == (0, "127.0.0.1")
        node = made(address)
        until(lambda: user.put("k", b"1") == 0)
        assert (user.get("k"), node.get("k")) == (b"1", b"1")
        child.stop()
        assert user.health_check() == 2
        child.resume()
        until(lambda: user.health_check() == 0)
        assert node.setup("127.0.0.1", "P2PHANDSHAKE", SIZE, MIB, "tcp", "", address) == 0
        assert node.get("k") == b""  # it went with the segment
        node.close()
        user.close()


def test_a_client_of_a_client(other: Other, address: str) -> None:
    """As a program uses the node that mooncake_client is."""
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    assert store.setup_dummy(MIB, MIB, other.name) == 0
    place = store.alloc_from_mem_pool(100)
    assert place
    assert store.put("dummy", b"abc") == 0
    assert (store.get_into("dummy", place, 100), other.get_size("dummy")) == (3, 3)
    assert (store.health_check(), store.get_hostname()) == (0, other.name)
    assert store.allocate_and_mount_segment(MIB)["ret"] == -1
    assert store.close() == 0


@pytest.mark.parametrize("count", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_what_does_not_fit_goes_to_the_disk(
    address: str, tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clients of one folder; each has a part of it for itself."""
    monkeypatch.setenv("MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES", str(1 << 28))
    more = {"enable_ssd_offload": True, "ssd_offload_path": str(tmp_path)}
    stores = [made(address, **more) for _ in range(2)]
    assert len(list(tmp_path.iterdir())) == 2
    value = bytes(3 * MIB)
    keys = [f"disk-{at}" for at in range(count)]
    for key in keys:
        until(lambda key=key: stores[0].put(key, value) == 0)
        until(lambda: not stores[0]._client.store.stats()["ssd"]["behind"])
    assert stores[0].batch_is_exist(keys[:1]) == [1]
    assert stores[0].get(keys[0]) == value
    for store in stores:
        store.close()


def test_configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mooncake.mooncake_config import MooncakeConfig

    with pytest.raises(ValueError, match="MOONCAKE_MASTER"):
        MooncakeConfig.load_from_env()
    monkeypatch.setenv("MOONCAKE_MASTER", "m:1")
    found = MooncakeConfig.load_from_env()
    assert (found.local_hostname, found.metadata_server, found.master_server_address) == (
        "localhost",
        "P2PHANDSHAKE",
        "m:1",
    )
    assert (found.global_segment_size, found.local_buffer_size) == (3355443200, 1 << 30)
    monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "4gb")
    monkeypatch.setenv("MOONCAKE_TENANT_ID", "t")
    found = MooncakeConfig.load_from_env()
    assert (found.global_segment_size, found.tenant_id, found.protocol) == (4 << 30, "t", "tcp")
    said: dict[str, Any] = {"local_hostname": "a", "metadata_server": "b", "device_name": "d"}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(said))
    with pytest.raises(ValueError, match="master_server_address"):
        MooncakeConfig.from_file(str(file))
    said |= {"master_server_address": "c", "local_buffer_size": 5, "enable_ssd_offload": "yes"}
    file.write_text(json.dumps(said))
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", str(file))
    found = MooncakeConfig.load_from_env()
    assert (found.local_buffer_size, found.device_name, found.enable_ssd_offload) == (5, "d", True)
    assert found == MooncakeConfig.from_file(str(file))


def test_awaited(address: str, other: Other) -> None:
    from mooncake.async_store import MooncakeDistributedStoreAsync

    async def calls(store: Any) -> None:
        at = ("127.0.0.1", "P2PHANDSHAKE", SIZE, MIB, "tcp", "")
        assert await store.async_setup(*at, address) == 0
        puts = [store.async_put(f"async-{at}", bytes([at])) for at in range(8)]
        assert await asyncio.gather(*puts) == [0] * 8
        assert await store.async_get_batch(["async-3", "no"]) == [b"\3", b""]
        assert await store.async_close() == 0
        with pytest.raises(AttributeError):
            store.async_nothing  # noqa: B018

    asyncio.run(calls(MooncakeDistributedStoreAsync()))


def test_a_forked_child_is_a_client_of_its_own(address: str, spawn: Any) -> None:
    child: Child = spawn(forking, address)
    assert child.result() == [0, 3, "abc"]
