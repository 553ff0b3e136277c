"""What a wrong call gets: a typed error that names peer, index and range, and nothing moved."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kvferry as kf
from kvferry.engine import handshake
from kvferry.path import PRESETS
from kvferry.testing import Child

from .conftest import MIB, Pair
from .target import serve
from .window import window


def test_a_local_region_that_was_unregistered(pair: Pair) -> None:
    gone = pair.ours.allocate("gone", MIB)
    batch = kf.Batch.of(gone, pair.peer.regions["kv"])
    pair.ours.unregister(gone)
    with pytest.raises(kf.ClosedError) as caught:
        pair.peer.write(batch)
    assert (caught.value.cause, caught.value.peer) == ("stale_region", pair.peer.peer)
    assert not pair.there().any()


def test_addresses_that_no_region_holds(pair: Pair) -> None:
    far = pair.peer.regions["kv"]
    for local, remote, side in [
        (pair.pool.address, far.address + far.length, "remote"),
        (0x1000, far.address, "local"),
    ]:
        good = (pair.pool.address, far.address)
        batch = kf.Batch.absolute([good[0], local], [good[1], remote], 4096)
        with pytest.raises(kf.UsageError, match=side) as caught:
            pair.peer.write(batch)
        assert (caught.value.cause, caught.value.index) == ("not_registered", 1)
        assert caught.value.range == (local if side == "local" else remote, 4096)
        assert caught.value.peer == pair.peer.peer
    assert not pair.there().any()


def test_a_descriptor_that_leaves_its_region(pair: Pair) -> None:
    far = pair.peer.regions["kv"]
    batch = kf.Batch.absolute(pair.pool.address, far.address + far.length - 4096, 8192)
    with pytest.raises(kf.UsageError) as caught:
        pair.peer.read(batch)
    assert (caught.value.cause, caught.value.index) == ("out_of_bounds", 0)


def test_descriptors_that_wrap_or_are_empty() -> None:
    with pytest.raises(kf.UsageError) as caught:
        kf.Batch.absolute([4096, 4096], [4096, 2**64 - 1], [16, 16])
    assert (caught.value.cause, caught.value.index) == ("wraps", 1)
    with pytest.raises(kf.UsageError) as caught:
        kf.Batch.absolute([4096, 4096], [4096, 8192], [16, 0])
    assert (caught.value.cause, caught.value.index) == ("zero_length", 1)


def test_an_empty_batch_is_done_at_once(pair: Pair) -> None:
    empty = kf.Batch.blocks(pair.pool, [], pair.peer.regions["kv"], [], 4096)
    report = pair.peer.write(empty)
    assert (report.bytes, report.descriptors, report.stream_submissions) == (0, 0, 0)
    assert pair.peer.read_async(empty).status is kf.Status.DONE


def test_a_write_into_a_read_only_region(pair: Pair) -> None:
    only = pair.theirs.allocate("only", MIB, readonly=True)
    window(only)[:] = 5
    remote = pair.peer.regions["only"]
    assert remote.readonly
    batch = kf.Batch.of(pair.pool, remote, length=MIB)
    with pytest.raises(kf.RightsError) as caught:
        pair.peer.write(batch)
    assert (caught.value.cause, caught.value.peer) == ("read_only", pair.peer.peer)
    pair.peer.read(batch)
    assert (pair.here()[:MIB] == 5).all()


def test_a_read_into_a_read_only_buffer(pair: Pair) -> None:
    batch = kf.Batch.of(bytes(4096), pair.peer.regions["kv"])
    with pytest.raises(kf.RightsError) as caught:
        pair.peer.read(batch)
    assert caught.value.cause == "read_only"
    pair.peer.write(batch)


def test_arrays_that_are_not_contiguous(pair: Pair) -> None:
    with pytest.raises(kf.UsageError) as caught:
        kf.Batch.of(np.zeros((64, 64), np.uint8)[:, ::2], pair.peer.regions["kv"])
    assert caught.value.cause == "not_contiguous"


def test_a_closed_engine_and_channel(pair: Pair) -> None:
    batch = pair.batch(4096)
    engine = kf.Engine()
    engine.close()
    for call in (
        lambda: engine.allocate("x", 4096),
        lambda: engine.connect(pair.theirs.addresses[0]),
        lambda: engine.notifications(),
        lambda: engine.register("x", bytearray(8)),
    ):
        with pytest.raises(kf.ClosedError):
            call()
    pair.peer.close()
    with pytest.raises(kf.ClosedError):
        pair.peer.write(batch)
    with pytest.raises(kf.ClosedError):
        pair.peer.call("echo", b"")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:",
        ":1",
        "host:99999",
        "[::1]",
        "::1:5",
        "unix://relative",
        "unix:///",
        "h:0",
    ],
)
def test_addresses_that_do_not_parse(address: str) -> None:
    with kf.Engine() as engine, pytest.raises(kf.UsageError) as caught:
        engine.connect(address)
    assert caught.value.cause == "address"


def test_a_port_in_use_says_which() -> None:
    with kf.Engine("127.0.0.1:0") as engine:
        with pytest.raises(kf.UsageError) as caught:
            kf.Engine(engine.addresses[0])
        assert caught.value.cause == "address_in_use"
        assert engine.addresses[0] in str(caught.value)


def test_nobody_at_the_address() -> None:
    with kf.Engine("127.0.0.1:0") as engine:
        address = engine.addresses[0]
    with kf.Engine() as engine, pytest.raises(kf.PeerError) as caught:
        engine.connect(address)
    assert caught.value.cause == "unreachable"


def test_a_wrong_token_and_a_missing_one(pair: Pair, tmp_path: Path) -> None:
    other = kf.Options(token_file=tmp_path / "none", token=b"another")
    with kf.Engine(options=other) as engine, pytest.raises(kf.RightsError) as caught:
        engine.connect(pair.theirs.addresses[0])
    assert (caught.value.cause, caught.value.peer) == ("token", pair.theirs.addresses[0])
    empty = tmp_path / "empty"
    empty.touch(0o600)
    with pytest.raises(kf.RightsError) as caught:
        kf.Engine("127.0.0.1:0", options=kf.Options(token_file=empty))
    assert caught.value.cause == "token"


def test_an_incompatible_version(
    spawn: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = spawn(serve).hear()
    monkeypatch.setattr(handshake, "VERSION", 99)
    with kf.Engine() as engine, pytest.raises(kf.PeerError, match="99, the callee 4") as caught:
        engine.connect(address)
    assert (caught.value.cause, caught.value.peer) == ("version", address)


@pytest.mark.parametrize("size", [0, -1, 1 << 50, 1 << 80])
def test_sizes_that_cannot_be(size: int) -> None:
    with kf.Engine() as engine:
        with pytest.raises((kf.UsageError, kf.NoMemory)):
            engine.allocate("x", size)
        assert not engine.regions


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e12])
def test_timeouts_that_are_none(pair: Pair, timeout: float) -> None:
    with pytest.raises(kf.UsageError) as caught:
        pair.peer.write(pair.batch(4096), timeout=timeout)
    assert caught.value.cause == "timeout"
    assert not pair.peer._flying


@pytest.mark.parametrize("name", [123, None, "", "a\udc80", "x" * 300])
def test_names_that_cannot_travel(pair: Pair, name: str) -> None:
    for call in (
        lambda: pair.ours.allocate(name, 4096),
        lambda: pair.ours.register(name, bytearray(8)),
        lambda: pair.peer.call(name, b""),
        lambda: pair.peer.notify(name, b""),
    ):
        with pytest.raises(kf.UsageError) as caught:
            call()
        assert caught.value.cause == "name"


def test_bodies_that_are_not_bytes(pair: Pair) -> None:
    for call in (lambda: pair.peer.call("x", "text"), lambda: pair.peer.notify("x", "text")):
        with pytest.raises(kf.UsageError) as caught:
            call()
        assert caught.value.cause == "not_bytes"


def test_objects_are_no_bytes(pair: Pair) -> None:
    with pytest.raises(kf.UsageError) as caught:
        kf.Batch.of(np.array([object()]), pair.peer.regions["kv"])
    assert caught.value.cause == "not_a_buffer"


def test_a_missing_region_names_the_peer_and_what_it_has(pair: Pair) -> None:
    with pytest.raises(KeyError, match=f"{pair.peer.peer} has no region 'nothing'.*'kv'"):
        pair.peer.regions["nothing"]


def test_options_out_of_range(pair: Pair) -> None:
    address = pair.theirs.addresses[0]
    for options, text in (
        ({"streams": 0}, "streams is 0, not from 1 to 8"),
        ({"streams": 9}, "streams is 9, not from 1 to 8"),
        ({"inline_below": -1}, "inline_below is -1"),
        ({"max_transfers_per_batch": 0}, "max_transfers_per_batch is 0, not from 1 to 1920"),
        ({"max_transfers_per_batch": 1921}, "is 1921, not from 1 to 1920"),
        ({"path": "nothing"}, "give one of auto, rma, direct, ubshmem, fabricmem"),
        ({"bounce": "junk"}, "NUM:SIZE_MB"),
        ({"bounce": "99:8"}, "NUM from 1 to 64"),
        ({"link": "rdma"}, "know loopback, fabric, cma, tcp"),
    ):
        with pytest.raises(kf.UsageError, match=re.escape(text)):
            pair.ours.connect(address, **options)


@pytest.mark.parametrize(
    ("options", "both"),
    [
        ({"path": "fabric/host", "link": "tcp"}, ["path='fabric/host'", "link='tcp'"]),
        ({"path": "ubshmem", "bounce": "4:8"}, ["bounce='4:8'", "fabric/host", "nothing to stage"]),
        (
            {"path": "auto", "link": "fabric", "bounce": "4:8"},
            ["bounce='4:8'", "fabric/host", "nothing to stage"],
        ),
        (
            {"path": "fabricmem", "submitter": "coprocessor", "streams": 4},
            ["streams=4", "submitter='coprocessor'"],
        ),
        ({"staging": "bounce", "bounce": "0:0"}, ["staging='bounce'", "bounce='0:0'"]),
        ({"path": "tcp/host/bounce", "bounce": "0:0"}, ["tcp/host/bounce", "bounce='0:0'"]),
    ],
)
def test_options_that_contradict_each_other_are_both_named(
    pair: Pair, options: dict[str, object], both: list[str]
) -> None:
    with pytest.raises(kf.UsageError, match="contradict") as caught:
        pair.ours.connect(pair.theirs.addresses[0], **options)
    assert caught.value.cause == "contradiction"
    assert all(word in str(caught.value) for word in both)


def test_paths_the_pair_cannot_take(pair: Pair) -> None:
    address = pair.theirs.addresses[0]
    with pytest.raises(kf.PathRefused) as caught:
        pair.ours.connect(address, path="loopback/inline")
    assert caught.value.rejected == {"loopback/inline/none": "the peer is another engine"}
    with pytest.raises(kf.UsageError, match="cannot exist: loopback has no streams"):
        pair.ours.connect(address, path="auto", link="loopback", submitter="host")


def test_a_path_that_is_not_taken_has_a_reason(pair: Pair) -> None:
    peer = pair.ours.connect(pair.theirs.addresses[0], path="direct")
    assert str(peer.path) == "fabric/host/none"
    assert "nothing to stage" in peer.rejected["fabric/host/bounce"]
    assert "another engine" in peer.rejected["loopback/inline/none"]
    every = set(peer.rejected) | {str(peer.path), str(peer.foreign_path)}
    assert every == {str(path) for path in PRESETS["direct"]}


def test_a_full_pool_of_slots_is_refused_or_waited_for(pair: Pair) -> None:
    pair.slots._limit = 1
    pair.ours._copies.hold(True)
    first = pair.peer.write_async(pair.batch(MIB))
    with pytest.raises(kf.Full):
        pair.peer.write_async(pair.batch(MIB))
    with pytest.raises(kf.Timeout) as caught:
        pair.peer.write(pair.batch(MIB), timeout=0.05)
    assert caught.value.cause == "no_slot"
    assert list(pair.peer._flying) == [first]
    pair.ours._copies.hold(False)
    first.wait(10)
    pair.peer.write(pair.batch(MIB))


def test_names_and_ranges_that_are_taken(pair: Pair) -> None:
    with pytest.raises(kf.UsageError) as caught:
        pair.ours.allocate("pool", 4096)
    assert caught.value.cause == "name_taken"
    buffer = bytearray(4096)
    first = pair.ours.register("buffer", buffer)
    assert pair.ours.register("buffer", buffer) is first
    with pytest.raises(kf.UsageError, match="buffer") as caught:
        pair.ours.register("part", memoryview(buffer)[100:])
    assert caught.value.cause == "overlap"
    pair.ours.unregister(first)
    pair.ours.unregister(first)
    with pytest.raises(kf.ClosedError):
        pair.ours.unregister(first)


def test_a_mapped_file_is_refused(pair: Pair, tmp_path: Path) -> None:
    file = np.memmap(tmp_path / "file", np.uint8, "w+", shape=(8192,))
    with pytest.raises(kf.UsageError) as caught:
        pair.ours.register("file", file)
    assert caught.value.cause == "file_backed"
