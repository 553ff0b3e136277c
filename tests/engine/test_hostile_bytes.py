"""Faults between two honest engines, at every port and on every kind of connection.

After each case (tests/engine/lab.py): the client got a typed error or the right bytes, in time;
nobody's memory changed but where the client wrote; a bystander read the right bytes all along;
every connection is closed and every descriptor is back; nothing was executed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvferry.engine import messages
from kvferry.testing.faults.mutations import MUTATIONS
from kvferry.testing.faults.units import Case, Way

from .lab import Lab

# What passes the proxy on each route.
PURPOSES = {
    "tcp": [messages.CONTROL, messages.DATA, messages.BEAT],
    "unix": [messages.CONTROL],
    "door": [messages.CONTROL],
}

# Units 0 and 1 are the handshake's, either way; those behind them come after authentication.
LAST_UNIT = 6


def cases(route: str) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        st.sampled_from(sorted(MUTATIONS)),
        st.integers(0, (1 << 32) - 1),
        st.sampled_from(Way),
        st.integers(0, LAST_UNIT),
        st.sampled_from(PURPOSES[route]),
    )


def fuzz(route: str, folder: Path, examples: int) -> None:
    unhurried = settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck)
    )
    lab = Lab(route, folder)

    @unhurried
    @given(case=cases(route))
    def any_case(case: Case) -> None:
        lab.run(case)

    try:
        any_case()
    finally:
        lab.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, too: where a pickle that is loaded would leave its file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("route", "examples"), [("tcp", 50), ("unix", 20), ("door", 20)])
def test_a_fault_on_the_way_harms_nobody(route: str, examples: int, folder: Path) -> None:
    fuzz(route, folder, examples)


@pytest.mark.slow
@pytest.mark.parametrize("route", PURPOSES)
def test_no_fault_out_of_thousands_harms_anybody(route: str, folder: Path) -> None:
    fuzz(route, folder, 2000)


# What once went wrong, or nearly.
FOUND = {
    "a peer that breaks the rules right behind its welcome": (
        "unix",
        Case("duplicate", 1, Way.TO_CLIENT, 1),
    ),
    "a channel that ends while a wire of it begins": (
        "tcp",
        Case("inject_garbage", 1100320218, Way.TO_SERVER, 2, messages.BEAT),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_mended(name: str, folder: Path) -> None:
    route, case = FOUND[name]
    lab = Lab(route, folder)
    try:
        for _ in range(8):
            lab.run(case)
    finally:
        lab.close()
