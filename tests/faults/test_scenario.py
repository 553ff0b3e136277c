"""What decides about a case is pure."""

from __future__ import annotations

import pytest

from kvferry.testing.faults.census import BLOCK, NEW, OLD, SIZE, blocks, census, pattern
from kvferry.testing.faults.scenario import PATHS, Case, Fault, Side, Step, covering, every, judge


@pytest.mark.parametrize("fault", Fault)
def test_a_covering_choice_leaves_nothing_out(fault: Fault) -> None:
    chosen = covering(fault)
    assert {case.path for case in chosen} == set(PATHS)
    assert {case.step for case in chosen} == set(Step)
    assert {case.side for case in chosen} == set(Side)
    assert {case.op for case in chosen} == {"read", "write"}


def test_every_case_may_end_in_some_way_and_not_in_all() -> None:
    cases = [case for fault in Fault for case in every(fault)]
    assert len(set(cases)) == 2 * len(PATHS) * len(Step) * len(Side) * 2
    assert all(judge(case) for case in cases)
    killed = Case(Fault.KILL, Step.LANDING, Side.TARGET, "tcp/host", "write")
    assert judge(killed) == {"PeerError"}, "never done, never a timeout"


def test_a_census_counts_every_byte() -> None:
    old, new = pattern(OLD), pattern(NEW)
    assert not (old == new).any()
    assert census(old, old, new).untouched
    found = old.copy()
    found.reshape(-1, BLOCK)[blocks()] = new.reshape(-1, BLOCK)[blocks()]
    whole = census(found, old, new)
    assert whole.complete
    assert whole.new == SIZE // 2
    found[0] ^= 1
    found[BLOCK] ^= 1
    spoiled = census(found, old, new)
    assert (spoiled.wrong, spoiled.stray) == (1, 1)
    assert not spoiled.clean


def test_a_block_that_lands_elsewhere_is_seen() -> None:
    old, new = pattern(OLD), pattern(NEW)
    found = old.copy()
    found[:BLOCK] = new[2 * BLOCK : 3 * BLOCK]
    assert census(found, old, new).wrong
