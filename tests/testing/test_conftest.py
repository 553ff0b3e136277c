"""The leak check that every test stands under, on runs of pytest over tests that leak."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_pytest(folder: Path, test: str) -> str:
    conftest = (ROOT / "tests/conftest.py").read_text()
    (folder / "conftest.py").write_text(conftest.replace("return 2.0", "return 0.05"))
    (folder / "test_it.py").write_text(test)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "--basetemp",
    ]
    config = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    run = subprocess.run(
        [*command, str(folder / "base"), *config, str(folder)], capture_output=True, text=True
    )
    return run.stdout


@pytest.mark.parametrize(
    ("leak", "named"),
    [
        ("import os\ndef test_it(): os.memfd_create('kvferry-x')\n", "/memfd:kvferry-x"),
        ("import os, tempfile\ndef test_it(): os.close(tempfile.mkstemp()[0])\n", "file "),
    ],
)
def test_a_test_that_leaks_fails_with_the_name_of_it(leak: str, named: str, tmp_path: Path) -> None:
    output = run_pytest(tmp_path, leak)
    assert "1 error" in output
    assert "left behind" in output
    assert named in output


def test_a_failed_test_is_not_blamed_twice(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, "import os\ndef test_it():\n    os.pipe()\n    assert 0\n")
    assert "1 failed" in output
    assert "left behind" not in output
