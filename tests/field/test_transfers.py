"""Results of transfers, as users of other engines met them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

import kvferry as kf

MIB = 1 << 20
SIZE = 16 * MIB
MILLION = 1_000_000


class Two(NamedTuple):
    ours: kf.Engine
    far: kf.Region
    pool: kf.Region
    peer: kf.Channel

    def batch(self) -> kf.Batch:
        return kf.Batch.of(self.pool, self.peer.regions["kv"])


@pytest.fixture
def two() -> Iterator[Two]:
    with kf.Engine("127.0.0.1:0") as theirs, kf.Engine() as ours:
        far, pool = theirs.allocate("kv", SIZE), ours.allocate("pool", SIZE)
        peer = ours.connect(theirs.addresses[0], path="fabric/host", inline_below=0)
        yield Two(ours, far, pool, peer)


@pytest.mark.parametrize("path", ["fabric/host", "cma/host", "tcp/host"])
def test_d3_overwriting_the_source_after_done_changes_nothing(two: Two, path: str) -> None:
    address = two.peer.peer
    with two.ours.connect(address, path=path) as peer:
        source, far = np.frombuffer(two.pool, np.uint8), np.frombuffer(two.far, np.uint8)
        for turn in range(1, 9):
            source[:] = turn
            peer.write(kf.Batch.of(two.pool, peer.regions["kv"]), timeout=20)
            source[:] = 255
            assert (far == turn).all()
        del source, far


def test_d7_a_log_handler_that_raises_does_not_change_a_result(two: Two) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the handler failed on purpose")

    broken = Broken()
    logger = logging.getLogger("kvferry")
    logger.addHandler(broken)
    before, logger.level = logger.level, logging.DEBUG
    try:
        np.frombuffer(two.pool, np.uint8)[:] = 9
        assert two.peer.write(two.batch(), timeout=10).bytes == SIZE
        assert (np.frombuffer(two.far, np.uint8) == 9).all()
        with pytest.raises(kf.Timeout):
            two.peer.write(two.batch(), timeout=0)
        assert two.peer.write(two.batch(), timeout=10).bytes == SIZE
    finally:
        logger.level = before
        logger.removeHandler(broken)


def test_d10_the_deadline_is_the_callers_and_the_error_says_time_and_bytes(two: Two) -> None:
    begin = time.monotonic()
    with pytest.raises(kf.Timeout) as caught:
        two.peer.write(two.batch(), timeout=0)
    assert time.monotonic() - begin < 10
    assert f"any of its {SIZE} bytes may have moved" in str(caught.value)
    assert "stopped after 0." in str(caught.value)
    assert caught.value.bytes_moved is None


@pytest.mark.parametrize("path", ["fabric/host", "fabric/coprocessor", "tcp/host"])
def test_d11_a_million_descriptors_go_in_one_batch_and_in_order(two: Two, path: str) -> None:
    """The same eight bytes a thousand times over, from a thousand places: the last one stands."""
    with two.ours.connect(two.peer.peer, path=path, streams=1) as peer:
        numbers = np.frombuffer(two.pool, np.uint64)
        numbers[:MILLION] = np.arange(MILLION)
        local = np.arange(MILLION) * 8
        remote = np.arange(MILLION) % 1000 * 8
        base = peer.regions["kv"].record.base
        batch = kf.Batch.absolute(two.pool.address + local, base + remote, 8)
        assert peer.write(batch, timeout=60).descriptors == MILLION
        there = np.frombuffer(two.far, np.uint64)[:1000]
        assert (there == np.arange(MILLION - 1000, MILLION)).all()
        del numbers, there


def test_n1_a_million_descriptors_from_arrays_are_made_at_once(two: Two) -> None:
    ids = np.arange(MILLION)
    taken = []
    for _ in range(3):
        begin = time.perf_counter()
        batch = kf.Batch.blocks(two.pool, ids, two.peer.regions["kv"], ids, 16)
        taken.append(time.perf_counter() - begin)
    assert len(batch.descriptors) == MILLION
    assert min(taken) < 0.5


def test_j5_a_transfer_of_nothing_is_done_at_once(two: Two) -> None:
    none = kf.Batch.blocks(two.pool, [], two.peer.regions["kv"], [], 4096)
    assert two.peer.read(none, timeout=1).bytes == 0
    two.peer.read_async(none).wait(1)


def test_o4_what_is_logged_of_a_failed_batch_does_not_grow_with_it(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    ids = np.arange(100_000)
    batch = kf.Batch.blocks(two.pool, ids, two.peer.regions["kv"], ids, 128)
    with caplog.at_level(logging.DEBUG, "kvferry"), pytest.raises(kf.Timeout) as caught:
        two.peer.write(batch, timeout=0)
    assert len(str(caught.value)) < 500
    assert sum(len(record.getMessage()) for record in caplog.records) < 2000
