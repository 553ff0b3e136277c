"""What is counted, when it begins anew, and the line about it."""

from __future__ import annotations

import json
from collections.abc import Callable

import hixl
import pytest
from hixl.statistics import GIB, RESET_AFTER, ChannelCosts, Cost, Statistics, SummaryLog, summary

from .conftest import FABRIC, MakeSide


def test_a_channel_counts_both_costs() -> None:
    statistics = Statistics()
    statistics.register("a:1")
    statistics.update("a:1", 30.0, 20.0, 4096, 2)
    statistics.update("a:1", 10.0, 9.0, 100, 1)
    statistics.update("b:1", 10.0, 9.0, 100, 1)  # no channel of ours
    assert statistics.snapshot() == {
        "client:a:1": ChannelCosts(Cost(2, 30.0, 40.0), Cost(2, 20.0, 29.0), 4196, 3)
    }
    statistics.forget("a:1")
    assert statistics.snapshot() == {}


def test_counters_begin_anew_after_100000_transfers() -> None:
    statistics = Statistics()
    statistics.register("a:1")
    for _ in range(RESET_AFTER):
        statistics.update("a:1", 1.0, 1.0, 1, 1)
    assert statistics.snapshot()["client:a:1"].transfer.times == 100_000
    statistics.update("a:1", 2.0, 1.0, 7, 1)
    assert statistics.snapshot()["client:a:1"] == ChannelCosts(Cost(1, 2, 2), Cost(1, 1, 1), 7, 1)


def test_the_line_names_the_slowest_channel() -> None:
    assert summary({"client:a:1": ChannelCosts()}) is None
    fast = ChannelCosts(Cost(1, 5e5, 5e5), Cost(), GIB, 1)
    slow = ChannelCosts(Cost(3, 1e6, 1.5e6), Cost(), GIB, 1)
    assert summary({"client:a:1": fast, "client:b:1": slow, "client:c:1": ChannelCosts()}) == (
        "4 transfers over 2 channels, 524288.0 kBytes on average; GiB/s: 2.000 at most, "
        "0.667 at least, 1.000 on average; slowest client:b:1"
    )


def test_the_line_comes_every_half_hour(said: Callable[[], str]) -> None:
    statistics = Statistics()
    statistics.register("a:1")
    log = SummaryLog(statistics, lambda: 1000.0)
    try:
        assert log.look(2799.0) == 1.0
        statistics.update("a:1", 1.0, 1.0, 1, 1)
        assert not said()
        assert log.look(2800.5) == 1800.0
        assert said().count("1 transfers over 1 channels") == 1
        assert log.look(4600.0) == 0.5
        assert log.look(4600.5) == 1800.0
        assert said().count("slowest client:a:1") == 2
    finally:
        log.close()


@pytest.mark.parametrize("unfold", [True, False])
def test_transfers_are_counted_as_they_were_called(side: MakeSide, unfold: bool) -> None:
    config = json.dumps({"fabric_memory.enable_aicpu_unfold": unfold})
    options = {**FABRIC, hixl.OPTION_GLOBAL_RESOURCE_CONFIG: config}
    ours, theirs = side(options), side(options)
    ours.engine.connect(theirs.name)
    ops = [hixl.TransferOpDesc(ours.address, theirs.address, 4096)] * 3
    assert ours.engine.transfer_sync(theirs.name, hixl.READ, ops) == hixl.SUCCESS
    _, request = ours.engine.transfer_async(theirs.name, hixl.WRITE, ops)
    while ours.engine.get_transfer_status(request)[1] is hixl.TransferStatus.WAITING:
        pass
    (costs,) = ours.engine._session.statistics.snapshot().values()
    assert (costs.total_bytes, costs.total_op_desc_count) == (6 * 4096, 6)
    assert costs.transfer.times == costs.real_copy.times == 2
    assert 0 < costs.real_copy.total_cost <= costs.transfer.total_cost
    ours.engine.disconnect(theirs.name)
    assert ours.engine._session.statistics.snapshot() == {}
