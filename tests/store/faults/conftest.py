"""A node in a process of its own, to be met in both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.faults.keeper import Keeper


@pytest.fixture
def addresses(folder: Path) -> list[str]:
    return [f"unix://{folder}/node", "127.0.0.1:0"]


@pytest.fixture
def keeper(addresses: list[str]) -> Iterator[Keeper]:
    with Keeper(addresses) as node:
        yield node
