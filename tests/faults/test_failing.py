"""Every call that can fail does, once, on every path."""

from __future__ import annotations

import pytest

from kvferry.testing import LeakCheck
from kvferry.testing.faults.duo import duo, options
from kvferry.testing.faults.errand import Errand
from kvferry.testing.faults.failing import FailAt
from kvferry.testing.faults.scenario import PATHS

EVERY_PATH = ["loopback/inline", *PATHS]
FEW_PATHS = ["fabric/host", "cma/coprocessor", "tcp/host/bounce"]

MOST = 1000


def go(path: str, n: int, only: str | None = None) -> FailAt:
    """The errand while the n-th call fails."""
    with LeakCheck(), FailAt(n, only).installed() as fail_at:
        try:
            Errand(path, options()).run()
        except BaseException as error:
            raise AssertionError(f"{path}: call {n}, {fail_at.failed}: {error!r}") from error
    return fail_at


def test_each_kind_of_call_fails_once() -> None:
    failed: set[str] = set()
    for path in FEW_PATHS:
        for name in set(go(path, 0).names) - failed:
            assert go(path, 1, name).failed == name
            failed.add(name)


def test_a_region_that_cannot_be_announced_is_there_when_asked_for() -> None:
    with duo("fabric/host") as pair:
        with FailAt(1, "export").installed() as fail_at:
            pair.theirs.allocate("late", 4096)
        assert fail_at.failed == "export"
        assert pair.peer.regions["late"].length == 4096


def test_a_region_is_taken_away_without_a_thread_to_ask_with() -> None:
    with duo("fabric/host") as pair:
        known = pair.peer.regions["kv"]
        with FailAt(1, "thread").installed() as fail_at:
            pair.theirs.unregister(pair.far)
        assert fail_at.failed == "thread"
        assert known not in pair.peer.known_regions.values()


@pytest.mark.slow
@pytest.mark.parametrize("path", EVERY_PATH)
def test_every_call_fails(path: str) -> None:
    for n in range(1, MOST):
        if go(path, n).failed is None:
            return
    raise AssertionError("there is no end of calls")
