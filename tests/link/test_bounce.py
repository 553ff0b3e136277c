"""The tcp link keeps the contract when pieces pass through a pool, and counts those that do."""

from __future__ import annotations

import numpy as np
import pytest

from kvferry import _core
from kvferry.batch import Batch
from kvferry.link import Link
from kvferry.memory import RemoteRegion
from kvferry.path import Path, Staging, SubmitterKind
from kvferry.submit import PoolSpec, SlotPool, Submitters
from kvferry.testing.link_contract import Bench, contents, fill, noise
from tests.link import test_tcp

BLOCK = 4096
COUNT = 64
SIZE = BLOCK * COUNT


class BounceBench(test_tcp.WireBench):
    pool = PoolSpec(2, 40_000)

    def path(self, submitter: SubmitterKind) -> Path:
        return super().path(submitter)._replace(staging=Staging.BOUNCE)

    def _open(self, submitter: SubmitterKind) -> Link:
        slots = SlotPool(self.runtime.stream)
        submitters = Submitters(self.engines, slots, streams=3, inline_below=0, pool=self.pool)
        return self.driver.open(self.peer(), self.path(submitter), submitters)


class PoollessBench(BounceBench):
    pool = PoolSpec(0, 0)


def staged(bench: Bench, op: int, batch: Batch) -> int:
    flying = bench.start(op, batch)
    assert bench.finish(flying) == _core.OK
    return flying.done.staged


def scattered(bench: Bench, local: object, remote: RemoteRegion) -> Batch:
    ids = np.random.default_rng(1).permutation(COUNT)
    return Batch.blocks(local, np.arange(COUNT), remote, ids, BLOCK)


class TestBounceOverTcp(test_tcp.TestTcp):
    make_bench = BounceBench

    @pytest.mark.parametrize("op", [_core.WRITE, _core.READ])
    def test_a_callers_buffer_is_staged_and_a_region_only_where_scattered(
        self, bench: Bench, op: int
    ) -> None:
        region, ours = bench.region(SIZE), bench.region(SIZE)
        remote, buffer = bench.attach(region), noise(1, SIZE)
        bench._local.add(ours.span)
        fill(ours, noise(2, SIZE))
        assert staged(bench, op, Batch.of(buffer, remote)) == SIZE
        assert staged(bench, op, scattered(bench, buffer, remote)) == SIZE
        assert staged(bench, op, Batch.of(ours, remote)) == 0
        assert staged(bench, op, scattered(bench, ours, remote)) == SIZE
        bench._local.discard(ours.span)
        order = np.random.default_rng(1).permutation(COUNT)
        there = contents(region).reshape(COUNT, BLOCK)
        assert np.array_equal(contents(ours).reshape(COUNT, BLOCK), there[order])


class TestBounceWithoutPool(test_tcp.TestTcp):
    """Nothing is staged where the pool is off."""

    make_bench = PoollessBench

    def test_nothing_is_staged(self, bench: Bench) -> None:
        remote = bench.attach(bench.region(SIZE))
        assert staged(bench, _core.WRITE, scattered(bench, noise(3, SIZE), remote)) == 0
