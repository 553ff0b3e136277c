"""Registering memory, as users of other engines met it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import kvferry as kf

SIZE = 1 << 16


def test_c1_the_identical_range_registers_twice_and_counts() -> None:
    with kf.Engine() as engine:
        buffer = np.zeros(SIZE, np.uint8)
        region = engine.register("kv", buffer)
        assert engine.register("kv", buffer) is region
        engine.unregister(region)
        assert engine.regions["kv"] is region
        engine.unregister(region)
        assert "kv" not in engine.regions
        with pytest.raises(kf.ClosedError):
            engine.unregister(region)


def test_c2_a_partial_overlap_names_both_regions() -> None:
    with kf.Engine() as engine:
        buffer = np.zeros(2 * SIZE, np.uint8)
        first = engine.register("first", buffer[:SIZE])
        with pytest.raises(kf.UsageError) as caught:
            engine.register("second", buffer[SIZE // 2 :])
        assert caught.value.cause == "overlap"
        assert "'first'" in str(caught.value)
        assert "'second'" in str(caught.value)
        assert f"{first.address:#x}" in str(caught.value)
        engine.register("second", buffer[SIZE:])


def test_c3_each_registration_is_released_once() -> None:
    with kf.Engine() as engine:
        buffer = np.zeros(SIZE, np.uint8)
        gone = weakref.ref(buffer)
        region = engine.register("kv", buffer)
        engine.register("kv", buffer)
        del buffer
        engine.unregister(region)
        gc.collect()
        assert gone() is not None
        engine.unregister(region)
        del region
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize("thing", [b"", bytearray(), np.zeros(0, np.uint8)])
def test_c4_c5_nothing_is_not_registered_and_harms_nobody(thing: object) -> None:
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        good = np.full(SIZE, 3, np.uint8)
        theirs.register("good", good)
        with pytest.raises(kf.UsageError):
            theirs.register("empty", thing)
        assert list(theirs.regions) == ["good"]
        with ours.connect(theirs.addresses[0], path="tcp/host") as peer:
            back = np.zeros(SIZE, np.uint8)
            peer.read(kf.Batch.of(back, peer.regions["good"]), timeout=10)
            assert (back == 3).all()


def test_c6_a_failed_registration_is_an_exception_with_range_and_cause() -> None:
    with kf.Engine() as engine:
        engine.register("kv", np.zeros(SIZE, np.uint8))
        other = np.zeros(SIZE, np.uint8)
        with pytest.raises(kf.UsageError) as caught:
            engine.register("kv", other)
        assert caught.value.cause == "name_taken"
        with pytest.raises(kf.NoMemory):
            engine.allocate("huge", 1 << 60)
        assert list(engine.regions) == ["kv"]


def test_c9_what_is_allocated_mapped_and_described_agrees() -> None:
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        region = theirs.allocate("odd", SIZE + 1)
        with ours.connect(theirs.addresses[0], path="fabric/inline") as peer:
            remote = peer.regions["odd"]
            assert remote.length == region.length == len(memoryview(region)) == SIZE + 1
            peer.write(kf.Batch.of(b"x", remote, remote_offset=SIZE), timeout=10)
            assert bytes(memoryview(region)[SIZE:]) == b"x"


@pytest.mark.parametrize("side", ["local", "remote"])
def test_c11_an_unregistered_address_is_named_beside_the_nearest_range(side: str) -> None:
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        far, near = theirs.allocate("kv", SIZE), ours.allocate("pool", SIZE)
        with ours.connect(theirs.addresses[0], path="fabric/inline") as peer:
            remote = peer.regions["kv"]
            good = near.address, remote.record.base
            shift = (SIZE + 64, 0) if side == "local" else (0, SIZE + 64)
            rows = [[each + by] for each, by in zip(good, shift, strict=True)]
            with pytest.raises(kf.UsageError) as caught:
                peer.write(kf.Batch.absolute(*rows, [8]))
        base = near.address if side == "local" else far.address
        assert caught.value.cause == "not_registered"
        assert caught.value.range == (base + SIZE + 64, 8)
        assert f"the nearest is {base:#x}+{SIZE:#x}" in str(caught.value)
