"""A peer that reads nothing holds up nobody, over every path."""

from __future__ import annotations

import pytest

from kvferry.testing.faults.crew import Crew
from kvferry.testing.faults.scenario import PATHS, Side
from kvferry.testing.faults.silence import silence


def test_over_wires() -> None:
    with Crew() as crew:
        for side in Side:
            silence(crew, "tcp/host", side)


@pytest.mark.slow
@pytest.mark.parametrize("side", Side)
def test_over_every_path(side: Side) -> None:
    with Crew() as crew:
        for path in PATHS:
            silence(crew, path, side)
