"""Several callers: threads on one channel, and patterns of processes."""

from __future__ import annotations

import os
import time

import pytest

from kvferry import PathRefused, PeerError
from kvferry.bench import lane as lanes
from kvferry.bench import measure, orders
from kvferry.bench.cases import Case, Plan, cases
from kvferry.bench.crew import Crew, open_crew
from kvferry.bench.layouts import plain
from kvferry.bench.orders import What
from kvferry.bench.shares import Pattern, shares
from kvferry.bench.timing import Pass, deal, join

MIB = 1 << 20
BLOCK = 64 << 10


def plan(pattern: Pattern | None, peers: int, threads: int, *paths: str) -> Plan:
    return Plan(
        layouts=(plain(BLOCK),),
        paths=paths or ("fabric/inline", "fabric/host"),
        ops=("write", "read"),
        batches=(8,),
        streams=(2,),
        seconds=0.0,
        threads=threads,
        pattern=pattern,
        peers=peers,
    )


@pytest.mark.parametrize(
    ("pattern", "peers", "threads"),
    [
        (None, 1, 3),
        (Pattern.PAIRWISE, 2, 1),
        (Pattern.ONE_TO_MANY, 3, 1),
        (Pattern.MANY_TO_ONE, 2, 2),
    ],
)
def test_every_byte_of_every_share_arrives(
    pattern: Pattern | None, peers: int, threads: int
) -> None:
    asked = plan(pattern, peers, threads)
    with open_crew(shares(pattern, peers, 12 * MIB)) as crew:
        for case in cases(asked, 12 * MIB):
            row = measure.measure(case, crew, 0.0)
            assert row.verified
            assert row.callers == peers * threads
            assert row.threads >= row.callers
            assert row.repeats == 5
            calls = row.bytes // (8 * BLOCK)
            assert row.submissions[{"inline": "inline"}.get(row.path["submitter"], "stream")] > 0
            assert calls % row.callers == 0
        assert set(crew.memory()) == {"initiator", "target"}


def test_threads_have_batches_of_their_own_in_every_pass() -> None:
    (case, *_) = cases(plan(None, 1, 7), 12 * MIB)
    batches = next(case.passes())
    hands = deal(batches, case.threads)
    assert len({len(hand) for hand in hands}) == 1
    steps = [int(step) for batch in batches for step in batch]
    assert len(steps) == len({step % case.slots for step in steps})


def test_a_wrong_byte_of_one_initiator_is_a_wrong_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches of the second target leave one block out."""
    real = lanes.Lane.batches

    def short(lane: lanes.Lane, steps: list) -> list:  # type: ignore[type-arg]
        spared = steps[1:] if lane.session.share.target == 1 else steps
        return real(lane, spared)

    monkeypatch.setattr(lanes.Lane, "batches", short)
    (case, *_) = cases(plan(Pattern.ONE_TO_MANY, 2, 1), 8 * MIB)
    with open_crew(shares(Pattern.ONE_TO_MANY, 2, 8 * MIB)) as crew:
        assert not measure.measure(case, crew, 0.0).verified


def test_all_begin_together_and_the_aggregate_is_from_first_to_last() -> None:
    (case, *_) = cases(plan(Pattern.PAIRWISE, 2, 1), 8 * MIB)
    with open_crew(shares(Pattern.PAIRWISE, 2, 8 * MIB)) as crew:
        crew.prepare(case)
        asked = time.monotonic_ns()
        done = crew.go(What.CASE)
        assert asked < done.begin < done.end < time.monotonic_ns()
        assert done.bytes == 2 * len(next(case.passes())) * 8 * BLOCK
        assert len(done.calls) == 2 * len(next(case.passes()))


def test_passes_join_from_the_earliest_begin_to_the_latest_end() -> None:
    both = join([Pass(10, 30, 4, [20], 0.5), Pass(5, 20, 6, [15], 0.25, staged=1)])
    assert both == Pass(5, 30, 10, [20, 15], 0.75, staged=1)
    assert both.gbps == pytest.approx(10 / 25)


def test_a_path_that_one_pair_has_not_got_is_refused() -> None:
    (case, *_) = cases(plan(Pattern.PAIRWISE, 2, 1, "loopback/inline"), 8 * MIB)
    with open_crew(shares(Pattern.PAIRWISE, 2, 8 * MIB)) as crew, pytest.raises(PathRefused):
        crew.connect(case)


def test_an_initiator_that_fails_says_why_and_leaves_nobody() -> None:
    seen: list[int] = []

    def fail() -> None:
        with open_crew(shares(Pattern.PAIRWISE, 2, 8 * MIB)) as crew:
            seen.extend(target.pid for target in crew.targets)
            too_large = Case("fabric/inline", "write", plain(BLOCK), 1 << 20, 8, 1, None)
            _ask_far(crew, orders.Prepare(too_large))

    with pytest.raises(PeerError, match="an initiator process: UsageError"):
        fail()
    for pid in seen:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def _ask_far(crew: Crew, order: orders.Order) -> None:
    """As the crew does, without this process."""
    from kvferry.bench import crew as module

    (process,) = crew._far
    process.say(orders.encode(order))
    module._hear(process)


@pytest.mark.parametrize("trace", [None, "some/file.gz"])
def test_an_order_survives_its_journey(trace: str | None) -> None:
    from pathlib import Path

    case = Case("a/b", "read", plain(64), 9, 3, 2, trace and Path(trace), 4)
    again = orders.decode(orders.encode(orders.Prepare(case)), orders.Order)  # type: ignore[arg-type]
    assert again == orders.Prepare(case)
