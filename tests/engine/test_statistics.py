"""Statistics of an engine: by peer and path, gone with their channel, dumped when asked for."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

import numpy as np
import pytest

import kvferry as kf
from kvferry.engine.statistics import StatsLog

from .conftest import MIB, Pair


def test_by_peer_and_path_and_gone_with_the_channel(pair: Pair) -> None:
    address = pair.theirs.addresses[0]
    pair.theirs.register("buffer", np.zeros(MIB, np.uint8))
    both = pair.ours.connect(address, path="auto")
    batch = pair.batch(MIB)
    pair.peer.write(batch)
    both.read(kf.Batch.of(bytearray(MIB), both.regions["buffer"]))
    assert both.foreign_path is not None
    stats = pair.ours.stats[address]
    assert stats[pair.peer.path].bytes == MIB
    assert stats[both.foreign_path].bytes == MIB
    assert stats[both.foreign_path].copies.count == 1
    both.close()
    assert both.foreign_path not in pair.ours.stats[address]
    pair.peer.close()
    assert pair.ours.stats == {}


def test_dumped_periodically(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """Every line is one peer and path; the last dump comes when the engine is closed."""
    options = replace(pair.ours.options, stats_every=0.01)
    caplog.set_level(logging.INFO, "kvferry.stats")
    with kf.Engine(options=options) as engine:
        peer = engine.connect(pair.theirs.addresses[0], path="fabric/host")
        peer.write(kf.Batch.of(bytes(MIB), peer.regions["kv"], length=MIB))
        written = threading.Event()
        while not any(f"{MIB} bytes in 1 descriptors" in line for line in caplog.messages):
            assert not written.wait(0.01)
    (last,) = caplog.messages[-1:]
    assert last.startswith(f"{peer.peer} fabric/host/none transfers 1, ")


def test_no_thread_unless_asked_for() -> None:
    before = threading.active_count()
    log = StatsLog(list, 0.0)
    assert threading.active_count() == before
    log.close()
