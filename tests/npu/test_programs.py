"""Every C program of this folder on the software NPU, under sanitizers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.native.harness import SANITIZERS, run_sanitized, why_not
from tests.npu.building import PROGRAMS, build


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of the programs under a sanitizer, all of them built at once."""
    return cache(lambda sanitizer: build(tmp_path_factory.mktemp("npu"), sanitizer))


@pytest.mark.parametrize(
    "sanitizer",
    [pytest.param(each, marks=pytest.mark.slow if each == "thread" else ()) for each in SANITIZERS],
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_runs_clean(program: Path, sanitizer: str, built: Callable[[str], Path]) -> None:
    reason = why_not(sanitizer)
    if reason is not None:
        pytest.skip(reason)
    run = run_sanitized(built(sanitizer) / program.stem, sanitizer)
    assert run.returncode == 0, run.stdout + run.stderr
