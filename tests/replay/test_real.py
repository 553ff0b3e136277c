"""Real stores hit what the simulation says, byte by byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvferry.errors import PeerError, UsageError
from kvferry.replay import Plan, replay_at, replay_embedded, run, simulate
from kvferry.replay.bodies import Bodies
from kvferry.replay.embedded import embedded
from kvferry.replay.real import Pace
from kvferry.replay.stored import Stored
from kvferry.store import Store
from tests.replay.samples import chat_trace

SIZE = 64
TRACE = chat_trace(80)


def quiet(count: int) -> None:
    pass


@pytest.mark.parametrize("capacity", [50, 200])
@pytest.mark.parametrize("policy", ["lru", "prefix", "s3fifo"])
def test_a_store_hits_what_is_simulated(policy: str, capacity: int) -> None:
    real = replay_embedded(TRACE, policy, capacity, SIZE, 0, quiet)
    simulated = simulate(TRACE, policy, capacity)
    if policy != "s3fifo":  # which knows blocks again by other prints, and forgets others early
        assert np.array_equal(real.hits.prefix, simulated.prefix)
        assert np.array_equal(real.hits.block, simulated.block)
    assert 0 < simulated.block.sum() < len(TRACE.blocks)
    assert abs(real.hits.block.sum() - simulated.block.sum()) < 0.01 * len(TRACE.blocks)
    found = real.measured
    assert found.read_bytes == real.hits.block.sum() * SIZE
    assert found.written_bytes == (len(TRACE.blocks) - real.hits.block.sum()) * SIZE
    assert (found.vanished, found.refused, found.late) == (0, 0, 0)
    assert list(found.latencies) == ["p50", "p90", "p99", "p99.9"]


def test_a_store_holds_as_many_blocks_as_it_is_told() -> None:
    with embedded("lru", 100, SIZE, 8) as store:
        for number in range(150):
            store.put(f"{number}", bytes(SIZE))
        assert store.exists_batch([f"{number}" for number in range(150)]).tolist() == (
            [False] * 50 + [True] * 100
        )


def test_at_an_address(tmp_path: Path) -> None:
    address = f"unix://{tmp_path}/node"
    with Store(listen=[address], size="4MiB"):
        first = run(Path("x"), TRACE, Plan(("lru",), (50,), SIZE, address, 0.0)).rows
        again = replay_at(TRACE, address, SIZE, 0, quiet)  # under other keys
    assert [row.where for row in first] == [address, "simulated"]
    best = simulate(TRACE, "prefix", TRACE.unique)
    assert np.array_equal(again.hits.prefix, best.prefix)
    assert first[0].prefix == best.ratios(TRACE).prefix
    assert first[0].same is None


def test_other_bytes_than_were_put_are_found() -> None:
    bodies = Bodies(SIZE)
    rows = bodies.rows(2)
    bodies.fill(rows, [3, 4])
    assert bodies.are(rows, [3, 4])
    rows[1, 7] ^= np.uint64(1)
    assert not bodies.are(rows, [3, 4])
    with Store(size="1MiB") as store:
        store.put_batch(["run/3", "run/4"], list(rows))
        with pytest.raises(PeerError, match="not_verified"):
            Stored(store, bodies, 10, "run", None).use(np.array([3, 4]))


def test_what_left_and_what_is_refused_is_counted() -> None:
    bodies = Bodies(1 << 20)
    with Store(size="512KiB") as store:
        stored = Stored(store, bodies, 10, "run", None)
        stored.use(np.array([1, 2]))
        stored.admit(np.array([3]))
    assert (stored.vanished, stored.refused) == (2, 1)


def test_requests_keep_their_times() -> None:
    few = replace(chat_trace(5), arrivals=np.array([0.0, 0.05, 0.05, 0.1, 0.4]))
    real = replay_embedded(few, "lru", 50, SIZE, 2.0, quiet)
    assert 0.2 <= real.measured.seconds < 5
    assert Pace(2.0).due(3.0) == 1.5
    assert Pace(0.0).due(3.0) == 0.0


def test_policies_for_comparison_are_no_node_s() -> None:
    with pytest.raises(UsageError, match="no node has the policy 'min'"):
        replay_embedded(TRACE, "min", 5, SIZE, 0, quiet)
    with pytest.raises(UsageError, match="words of 8"):
        replay_embedded(TRACE, "lru", 5, 63, 0, quiet)
