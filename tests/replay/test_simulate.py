"""Hits, request by request, against naive simulators and against published tables."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kvferry.errors import UsageError
from kvferry.replay import KNOWN, ideal, read_trace, simulate
from kvferry.replay.trace import Trace
from tests.replay.samples import (
    LINES,
    Naive,
    chat_trace,
    naive_lfu,
    naive_lru,
    naive_min,
    naive_s3fifo,
    written,
)

NAIVE = {"lru": naive_lru, "lfu": naive_lfu, "s3fifo-listed": naive_s3fifo, "min": naive_min}
CAPACITIES = (1000, 5860, 10_000, 30_000, 50_000, 100_000)
FOLDER = Path(os.environ.get("TRACES", "/nowhere"))

# Of the conversation trace of Mooncake, one block at a time, tails first: by block of the prefix,
# for MIN by block.
PUBLISHED = {
    "lru": (0.0445, 0.1361, 0.2116, 0.3257, 0.3546, 0.3637),
    "lfu": (0.0481, 0.0969, 0.1322, 0.2761, 0.3438, 0.3631),
    "s3fifo-listed": (0.0556, 0.1525, 0.1953, 0.3043, 0.3490, 0.3624),
    "min": (0.1907, 0.3532, 0.3664, 0.3664, 0.3664, 0.3664),
}
SHORT = [("lru", 5860), ("lfu", 5860), ("s3fifo-listed", 5860), ("min", 5860)]
FULL = [(policy, capacity) for policy in PUBLISHED for capacity in CAPACITIES]


@cache
def chat() -> Trace:
    return chat_trace(100)


@cache
def conversation() -> Trace:
    file = FOLDER / "conversation.jsonl.gz"
    if not file.exists():
        pytest.skip(f"no {file.name} in the folder that TRACES names")
    return read_trace(file)


@pytest.mark.parametrize(("policy", "naive"), NAIVE.items())
@pytest.mark.parametrize("capacity", [1, 20, 60, 200])
def test_hits_are_those_of_a_naive_simulator(policy: str, naive: Naive, capacity: int) -> None:
    trace = chat() if policy != "min" else chat_trace(30)
    hits = simulate(trace, policy, capacity)
    expected = naive([trace.of(at).tolist() for at in range(len(trace))], capacity)
    assert list(zip(hits.prefix.tolist(), hits.block.tolist(), strict=True)) == expected


@pytest.mark.parametrize("policy", KNOWN)
def test_nothing_leaves_what_holds_everything(policy: str) -> None:
    hits, best = simulate(chat(), policy, chat().unique), ideal(chat())
    assert np.array_equal(hits.prefix, best.prefix)
    assert np.array_equal(hits.block, best.block)


def test_a_prefix_that_lost_its_middle_counts_up_to_there() -> None:
    hits = simulate(chat(), "min", 60)
    assert (hits.prefix <= hits.block).all()
    assert hits.prefix.sum() < hits.block.sum()


def test_prefix_policy_keeps_no_orphans() -> None:
    hits = simulate(chat(), "prefix", 60)
    assert np.array_equal(hits.prefix, hits.block)


def test_tokens_weigh_what_the_last_block_has() -> None:
    hits = ideal(chat())
    tokens = np.minimum(hits.prefix * 16, chat().inputs).sum() / chat().inputs.sum()
    assert hits.ratios(chat()).token == pytest.approx(tokens)


def test_requests_are_told_of() -> None:
    told: list[int] = []
    simulate(chat(), "lru", 5, told.append)
    assert sum(told) == len(chat())


def test_what_cannot_be_simulated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'fifo' is not one of lru"):
        simulate(chat(), "fifo", 5)
    with pytest.raises(UsageError, match="capacity of 0"):
        simulate(chat(), "lru", 0)
    with pytest.raises(UsageError, match="azure does not say which blocks"):
        simulate(read_trace(written(tmp_path / "a", LINES["azure"]())), "lru", 5)


def reproduces(policy: str, capacity: int) -> None:
    ratios = simulate(conversation(), policy, capacity).ratios(conversation())
    found = ratios.block if policy == "min" else ratios.prefix
    assert f"{found:.4f}" == f"{PUBLISHED[policy][CAPACITIES.index(capacity)]:.4f}"


@pytest.mark.parametrize(("policy", "capacity"), SHORT)
def test_published_ratios_are_reproduced(policy: str, capacity: int) -> None:
    reproduces(policy, capacity)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "capacity"), FULL)
def test_all_published_ratios_are_reproduced(policy: str, capacity: int) -> None:
    reproduces(policy, capacity)
    best = ideal(conversation()).ratios(conversation())
    assert (f"{best.prefix:.4f}", f"{best.token:.4f}") == ("0.3664", "0.3736")
