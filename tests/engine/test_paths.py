"""Every path between two processes: the same bytes, and a report that says how they went."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kvferry as kf
from kvferry.testing import Child
from kvferry.testing.under_test import in_sight, on_host

from .target import serve
from .window import window

MIB = 1 << 20
SIZE = 8 * MIB

PATHS = [
    "fabric/inline/none",
    "fabric/host/none",
    "fabric/coprocessor/none",
    "cma/inline/none",
    "cma/host/none",
    "cma/coprocessor/none",
    "tcp/host/none",
    "tcp/host/bounce",
]
if not on_host():  # a coprocessor there needs kernels of its vendor
    PATHS.remove("fabric/coprocessor/none")
if not in_sight():  # what copies with the processor must stage, at both ends
    PATHS = ["fabric/inline/none", "fabric/host/none", "tcp/host/bounce"]
TO_REGISTERED = [path for path in PATHS if not path.startswith("fabric")]
if not in_sight():
    TO_REGISTERED.append("cma/host/bounce")


Spawn = Callable[..., Child]


@pytest.fixture
def target(spawn: Spawn) -> tuple[Child, str]:
    """A process with an engine, and its address."""
    child = spawn(serve)
    return child, child.hear()


@pytest.mark.parametrize("path", PATHS)
def test_bytes_arrive_over(target: tuple[Child, str], path: str) -> None:
    child, address = target
    child.ask(["allocate", "kv", SIZE])
    with kf.Engine() as engine:
        pool = engine.allocate("pool", SIZE)
        peer = engine.connect(address, path=path, streams=1)
        assert (str(peer.path), peer.regions["kv"].path) == (path, peer.path)
        check(child, peer, pool, "kv")


@pytest.mark.parametrize("path", TO_REGISTERED)
def test_registered_memory_is_reached_over(target: tuple[Child, str], path: str) -> None:
    child, address = target
    child.ask(["register", "theirs", SIZE])
    with kf.Engine() as engine:
        peer = engine.connect(address, path=path, streams=1)
        assert str(peer.foreign_path) == path
        check(child, peer, engine.allocate("pool", SIZE), "theirs")


def check(child: Child, peer: kf.Channel, pool: kf.Region, name: str) -> None:
    """Write a permutation of blocks, compare there; read another back, compare here."""
    block, count = 4096, SIZE // 4096
    random = np.random.default_rng(1)
    here = window(pool)
    here[:] = values = random.integers(0, 256, SIZE, np.uint8)
    ours, theirs = random.permutation(count), random.permutation(count)
    batch = kf.Batch.blocks(pool, ours, peer.regions[name], theirs, block)
    wrote = peer.write(batch, timeout=20)
    expected = np.empty((count, block), np.uint8)
    expected[theirs] = values.reshape(count, block)[ours]
    assert child.ask(["digest", name, 0, SIZE]) == zlib.crc32(expected)
    here[:] = 0
    read = peer.read(batch, timeout=20)
    assert np.array_equal(here, values)
    for report in (wrote, read):
        assert (report.bytes, report.descriptors) == (SIZE, count)
        assert report.path == peer.regions[name].path
        _, submitter, staging = str(report.path).split("/")
        ends = 1 if in_sight() or name == "theirs" else 2
        assert report.staged_bytes == (SIZE * ends if staging == "bounce" else 0)
        assert bool(report.inline_copies) == (submitter == "inline")
        assert bool(report.coprocessor_batches) == (submitter == "coprocessor")
        assert bool(report.stream_submissions) == (submitter == "host")
        assert 0 < report.moving_seconds <= report.seconds
    stats = peer.stats[report.path]
    assert (stats.transfers.count, stats.copies.count, stats.bytes) == (2, 2, 2 * SIZE)
    assert stats.descriptors == 2 * count
    assert stats.copies.total <= stats.transfers.total


@pytest.mark.host_memory("a device's would need staging")
@pytest.mark.parametrize("options", [{"path": "direct", "link": "cma"}, {"bounce": "1:1"}])
def test_where_nothing_needs_staging_cma_goes_without(
    target: tuple[Child, str], options: dict[str, Any]
) -> None:
    child, address = target
    child.ask(["register", "theirs", MIB])
    with kf.Engine() as engine:
        peer = engine.connect(address, **options)
        assert str(peer.foreign_path) == "cma/host/none"
        assert "nothing to stage" in peer.rejected["cma/host/bounce"]
        assert (np.frombuffer(_read(peer, "theirs"), np.uint8) == 1).all()


def _read(peer: kf.Channel, name: str) -> bytearray:
    back = bytearray(MIB)
    assert peer.read(kf.Batch.of(back, peer.regions[name])).staged_bytes == 0
    return back


def test_two_paths_of_one_channel(target: tuple[Child, str]) -> None:
    child, address = target
    own = child.ask(["allocate", "own", MIB])
    child.ask(["register", "registered", MIB])
    with kf.Engine() as engine:
        peer = engine.connect(address)
        assert str(peer.path) == "fabric/host/none"
        assert peer.foreign_path is not None
        assert peer.foreign_path.link.value in ("cma", "tcp")
        registered = peer.regions["registered"]
        assert peer.regions["own"].path == peer.path
        assert registered.path == peer.foreign_path
        assert not registered.own
        back = np.zeros(MIB, np.uint8)
        report = peer.read(kf.Batch.of(back, registered))
        assert (back == 1).all()
        assert report.path == peer.foreign_path
        assert set(peer.stats) == {peer.path, peer.foreign_path}
        assert peer.stats[peer.path].bytes == 0
        pool = engine.allocate("pool", MIB)
        mixed = kf.Batch.absolute(
            [pool.address, pool.address + 4096, pool.address + 8192],
            [own, own + 4096, registered.address],
            4096,
        )
        with pytest.raises(kf.UsageError, match="two paths") as caught:
            peer.write(mixed)
        assert (caught.value.cause, caught.value.index) == ("mixed_paths", 2)
        assert "'own' over fabric/host/none" in str(caught.value)
        assert f"'registered' over {peer.foreign_path}" in str(caught.value)


def test_memory_out_of_reach_is_explained(target: tuple[Child, str]) -> None:
    child, address = target
    child.ask(["register", "registered", MIB])
    with kf.Engine() as engine:
        peer = engine.connect(address, path="ubshmem")
        assert peer.foreign_path is None
        with pytest.raises(KeyError, match="merely registered is out of reach of fabric/host"):
            peer.regions["registered"]


@pytest.mark.parametrize("path", TO_REGISTERED)
def test_read_only_memory_is_not_written(target: tuple[Child, str], path: str) -> None:
    child, address = target
    child.ask(["register", "only", MIB, True])
    with kf.Engine() as engine:
        peer = engine.connect(address, path=path)
        remote = peer.regions["only"]
        assert remote.readonly
        with pytest.raises(kf.RightsError) as caught:
            peer.write(kf.Batch.of(bytes(MIB), remote))
        assert caught.value.cause == "read_only"
    assert child.ask(["digest", "only", 0, MIB]) == zlib.crc32(bytes([1]) * MIB)


@pytest.mark.parametrize("path", TO_REGISTERED)
def test_registered_later_and_taken_away(target: tuple[Child, str], path: str) -> None:
    child, address = target
    with kf.Engine() as engine:
        peer = engine.connect(address, path=path)
        for turn in range(3):
            child.ask(["register", f"kv{turn}", MIB])
            remote = peer.regions[f"kv{turn}"]
            back = np.zeros(MIB, np.uint8)
            peer.read(kf.Batch.of(back, remote))
            assert (back == 1).all()
            child.ask(["unregister", f"kv{turn}"])
            with pytest.raises(kf.ClosedError):
                peer.read(kf.Batch.of(back, remote))


@pytest.mark.parametrize("path", PATHS)
def test_a_killed_peer_is_unknown_and_the_survivor_goes_on(spawn: Spawn, path: str) -> None:
    target, other = spawn(serve), spawn(serve)
    addresses = [child.hear() for child in (target, other)]
    for child in (target, other):
        child.ask(["allocate", "kv", SIZE])
    with kf.Engine() as engine:
        peer = engine.connect(addresses[0], path=path)
        batch = kf.Batch.of(bytearray(SIZE), peer.regions["kv"])
        peer.read(batch)
        target.kill()
        with pytest.raises((kf.PeerError, kf.ClosedError)):
            read_on(peer, batch)
        again = engine.connect(addresses[1], path=path)
        again.write(kf.Batch.of(bytes(SIZE), again.regions["kv"]), timeout=10)
    assert other.ask(["digest", "kv", 0, SIZE]) == zlib.crc32(bytes(SIZE))


def read_on(peer: kf.Channel, batch: kf.Batch) -> None:
    for _ in range(1000):
        peer.read(batch, timeout=10)
