"""Matrix products in one thread: a pool of them begins anew in who has forked, and looks left
behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield
