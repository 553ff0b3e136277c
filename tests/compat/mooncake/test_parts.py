"""What decides by itself: names, rights, keys, slabs, numbers."""

from __future__ import annotations

import gc
import logging
from typing import Any

import numpy as np
import pytest

import kvferry as kf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host", ("host", None)),
        ("host:1", ("host", 1)),
        ("10.0.0.1:0", ("10.0.0.1", None)),
        ("[::1]", ("::1", None)),
        ("[fe80::1]:65535", ("fe80::1", 65535)),
        ("::1", ("::1", None)),
    ],
)
def test_names(text: str, expected: tuple[str, int | None]) -> None:
    from mooncake.names import parse

    assert parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", ":1", "a b", "host:", "host:x", "host:65536", "[::1", "[x]:1", "a:b:c", "[]"]
)
def test_what_is_no_name(text: str) -> None:
    from mooncake.names import parse

    with pytest.raises(kf.UsageError, match="address"):
        parse(text)


def test_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from mooncake import metadata_keys

    monkeypatch.setattr(metadata_keys, "KEYS_MAX", 3)
    monkeypatch.setattr(metadata_keys, "TOTAL_MAX", 100)
    keys = metadata_keys.Keys()
    put = lambda key, value: keys.answer("PUT", key, value).status  # noqa: E731
    assert [put(key, b"x") for key in "abcd"] == [200, 200, 200, 507]
    assert put("a", b"x" * 96) == 507
    assert put("a", b"x" * 95) == 200
    assert put("b", b"xx") == 507
    assert put("a", b"") == 200
    assert put("b", b"xx") == 200
    assert put("b", b"x" * (metadata_keys.VALUE_MAX + 1)) == 413
    assert keys.answer("DELETE", "c", b"").status == 200
    assert put("d", b"x") == 200


class Flying:
    """A transfer whose fate is told."""

    def __init__(self, status: kf.Status, error: kf.Error | None = None) -> None:
        self.status, self.error = status, error

    def wait(self, timeout: float | None) -> None:
        if self.error is not None:
            raise self.error


def test_numbers(caplog: Any) -> None:
    from mooncake.flights import Flights

    clock = [0]
    flights: Any = Flights(lambda: clock[0])
    failed = kf.PeerError("gone", cause="peer_gone")
    late = kf.Timeout("late", cause="timeout")
    done, bad = Flying(kf.Status.DONE), Flying(kf.Status.FAILED, failed)
    slow = Flying(kf.Status.PENDING, late)
    one, two, three, four = (
        flights.add(each, 10) for each in ([done], [done, bad], [done, slow], [])
    )
    assert [flights.check(each) for each in (one, two, three, four)] == [1, -1, 0, 1]
    clock[0] = 10
    assert flights.check(three) == -2
    assert [flights.check(each) for each in (one, two, three, four)] == [-1] * 4
    assert not flights.wait([flights.add([slow], 10), flights.add([done], 10)])
    assert flights.wait([flights.add([done], 0)])
    assert "peer_gone" in caplog.text
    assert "timeout" in caplog.text


def test_what_may_still_land_is_shouted(caplog: Any) -> None:
    from mooncake.codes import coded

    class Broken:
        @coded(-1)
        def move(self) -> int:
            raise kf.NotQuiet("held", peer="p", wait_quiet=lambda timeout: True)

    assert Broken().move() == -1
    (record,) = caplog.records
    assert record.levelno == logging.CRITICAL
    assert "DO NOT REUSE" in record.message


def test_slabs_grow_and_are_used_again() -> None:
    from mooncake.slabs import SLAB, Slabs

    with kf.Engine() as engine:
        slabs = Slabs(engine, "s")
        first = slabs.allocate(SLAB)
        second = slabs.allocate(5)
        assert {region.length for region in engine.regions.values()} == {SLAB}
        assert len(engine.regions) == 2
        slabs.free(first)
        assert slabs.allocate(1) == first
        large = slabs.allocate(SLAB + 1)
        assert len(engine.regions) == 3
        slabs.free(large)
        assert len(engine.regions) == 2
        for address in (second + 1, large, 0):
            with pytest.raises(kf.UsageError, match="unknown_address"):
                slabs.free(address)
        slabs.free(first)
        assert slabs.used == 4096
        slabs.free(second)
        assert slabs.used == 0


def test_host_memory_that_callers_register_themselves() -> None:
    from mooncake.allocator import MooncakeHostMemAllocator
    from mooncake.engine import TransferEngine

    engine, allocator = TransferEngine(), MooncakeHostMemAllocator()
    assert allocator.free(4096) == -1
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    at, to = allocator.alloc(4096), allocator.alloc(4096)
    assert at
    assert engine.batch_register_memory([at, to], [4096, 4096]) == 0
    assert engine.write_bytes_to_buffer(at, b"kept", 4) == 0
    name = f"127.0.0.1:{engine.get_rpc_port()}"
    assert engine.transfer_sync_write(name, at, to, 4096) == 0
    assert engine.read_bytes_from_buffer(to, 4) == b"kept"
    assert engine.batch_unregister_memory([at, to]) == 0
    assert allocator.alloc(0) == 0
    assert [allocator.free(each) for each in (at, to, to)] == [0, 0, -1]
    engine.get_engine().close()
    del engine, allocator
    gc.collect()


def test_pieces_are_rows_of_one_array_without_empty_ones() -> None:
    from mooncake.moves import rows_of

    (rows,) = rows_of([1, 2, 3], [4, 5, 6], [7, 0, 9])
    assert rows.tolist() == [[1, 4, 7], [3, 6, 9]]
    high = (1 << 63) + 8
    (rows,) = rows_of([high, 8], np.array([8, 8], np.uint64), (1, 1))
    assert rows.tolist() == [[high, 8, 1], [8, 8, 1]]
    assert rows_of([], [], []) == []
    assert rows_of([1], [1], [0]) == []
