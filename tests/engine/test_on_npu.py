"""A part of this suite on the CANN runtime and the software NPU; scripts/on-npu runs all of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvferry.testing.under_test import VARIABLES
from tests.npu.acl import LIBRARY

PART = (
    "tests/engine/test_paths.py::test_bytes_arrive_over",
    "tests/engine/test_two_processes.py::test_scattered_blocks_both_ways",
    "tests/engine/test_outcomes.py::test_cancel_is_not_an_outcome_until_quiet",
    "tests/engine/test_fork.py::test_a_child_gets_no_engine_on_a_device_of_its_parents",
)


@pytest.mark.host_memory("here it runs on the device already")
@pytest.mark.parametrize("place", ["device", pytest.param("host", marks=pytest.mark.slow)])
def test_a_part_of_the_suite_passes_on_it(
    place: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    settings = {
        "KVFERRY_RUNTIME": "cann",
        "KVFERRY_ACL_LIBRARY": str(LIBRARY),
        "KVFERRY_TEST_PLACE": place,
        "NPU_QUIET": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-n0", f"--basetemp={tmp_path}/on-npu", *PART]
    done = subprocess.run(
        [*command, "-k", "65536-2 or not scattered"],
        cwd=pytestconfig.rootpath,
        env={**environment, **settings},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert re.search(r"\b(\d+) passed", done.stdout)
