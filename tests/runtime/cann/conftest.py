"""Two processes for all tests of the CANN runtime, since each takes a while to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvferry.testing import spawn
from tests.runtime.cann.npu import Two, Worker, work


@pytest.fixture(scope="package")
def two() -> Iterator[Two]:
    with spawn(work) as owner, spawn(work) as user:
        yield Two(Worker(owner), Worker(user))
