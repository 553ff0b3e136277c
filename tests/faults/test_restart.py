"""A target that comes back on the same address, over every path."""

from __future__ import annotations

import pytest

from kvferry.testing.faults.crew import Crew
from kvferry.testing.faults.restart import restart
from kvferry.testing.faults.scenario import PATHS

A_PATH_A_LINK = ("fabric/host", "cma/host", "tcp/host")


def test_a_few_lives() -> None:
    with Crew() as crew:
        for path in A_PATH_A_LINK:
            restart(crew, path, 2, kill=False)
        restart(crew, "fabric/host", 1, kill=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_fifty_lives_of_an_engine(path: str) -> None:
    with Crew() as crew:
        restart(crew, path, 50, kill=False)


@pytest.mark.slow
@pytest.mark.parametrize("path", A_PATH_A_LINK)
def test_fifty_lives_of_a_process(path: str) -> None:
    with Crew() as crew:
        restart(crew, path, 50, kill=True)
