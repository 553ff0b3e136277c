"""The package under its own name, for one file of tests at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).parents[3] / "src/kvferry/compat/mooncake"


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    """Children that the tests spawn search where this process does."""
    sys.path.insert(0, str(TREE))
    yield
    sys.path.remove(str(TREE))
    for name in [name for name in sys.modules if name.partition(".")[0] == "mooncake"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("MC_")]:
        monkeypatch.delenv(name)
