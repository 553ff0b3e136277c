"""A process of the scenario is killed, or stands still, at every step, over every path."""

from __future__ import annotations

import pytest

from kvferry.testing.faults.crash import run
from kvferry.testing.faults.crew import Crew
from kvferry.testing.faults.scenario import PATHS, Fault, covering, every


@pytest.mark.parametrize("fault", Fault)
def test_a_few_cases(fault: Fault) -> None:
    with Crew() as crew:
        for case in covering(fault):
            run(crew, case)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fault", Fault)
def test_every_case(fault: Fault, path: str) -> None:
    with Crew() as crew:
        for case in every(fault):
            if case.path == path:
                run(crew, case)
