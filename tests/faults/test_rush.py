"""Threads against each other: the bytes are right, and nothing hangs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvferry.testing.faults.duo import Duo, duo
from kvferry.testing.faults.rush import abort_one_of_many, close_amid_submitters, connect_at_once
from kvferry.testing.faults.scenario import PATHS

RUSHES = [abort_one_of_many, close_amid_submitters, connect_at_once]
EVERY_PATH = ["loopback/inline", *PATHS]


@pytest.mark.parametrize(
    ("rush", "path"), [(RUSHES[n % len(RUSHES)], path) for n, path in enumerate(EVERY_PATH)]
)
def test_of_threads(rush: Callable[[Duo], None], path: str) -> None:
    with duo(path) as pair:
        rush(pair)


@pytest.mark.slow
@pytest.mark.parametrize("path", EVERY_PATH)
@pytest.mark.parametrize("rush", RUSHES)
def test_again_and_again(rush: Callable[[Duo], None], path: str) -> None:
    for _ in range(5):
        with duo(path) as pair:
            rush(pair)
