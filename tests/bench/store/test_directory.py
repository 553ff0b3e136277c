"""A short run with all processes, one of which is killed."""

from __future__ import annotations

import pytest

from kvferry.bench.store.directory import BATCHES, NODES, Plan, run_directory


@pytest.mark.slow
def test_a_short_run() -> None:
    found = run_directory(Plan(keys=8000, seconds=0.05))
    assert found.verified
    assert (found.keys, found.nodes) == (8000, NODES)
    assert [row.batch for row in found.lookups] == list(BATCHES)
    assert all(row.found == 1 and row.per_cpu_second > 0 for row in found.lookups)
    assert 0 < found.built_s < 30
