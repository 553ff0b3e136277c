"""``kvferry compat``: what it says, and what processes find that a shell starts after it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvferry.cli import main

KVFERRY = f"{sys.executable} -c 'from kvferry.cli import main; main()'"

GRANDCHILD = """
import subprocess, sys
code = "import mooncake.engine; print(mooncake.engine.__file__)"
subprocess.run(["python3", "-c", code], check=True)
"""


Tell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tell:
    """Runs the command in this process: status, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kvferry", "compat", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def shell(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        ["sh", "-ec", script], cwd=cwd, env=environ, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("name", ["mooncake", "hixl"])
def test_it_says_what_is_there_and_what_is_not(name: str, tell: Tell) -> None:
    status, out, err = tell(name)
    assert (status, err) == (0, "")
    has, lacks = out.splitlines()
    assert has.startswith(f"has    {name}")
    assert lacks.startswith("lacks  no ")


@pytest.mark.parametrize("options", [[], ["--env"]])
def test_an_unknown_name_is_one_line(options: list[str], tell: Tell) -> None:
    status, out, err = tell("nonesuch", *options)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert "'nonesuch'" in line
    assert "mooncake, hixl" in line


def test_children_and_grandchildren_find_it(tmp_path: Path) -> None:
    script = f"""
        eval "$({KVFERRY} compat mooncake --env)"
        python3 -c "import mooncake.engine, sys; print(mooncake.engine.__file__, sys.prefix)"
        python3 -c '{GRANDCHILD}'
        command -v mooncake_http_metadata_server
        eval "$({KVFERRY} compat hixl --env)"
        python3 -c "import hixl, mooncake; print(hixl.__file__)"
    """
    run = shell(script, tmp_path)
    assert run.returncode == 0, run.stderr
    child, grandchild, command, hixl = run.stdout.splitlines()
    assert child == f"{grandchild} {sys.prefix}"
    assert grandchild.endswith("kvferry/compat/mooncake/mooncake/engine.py")
    assert hixl.endswith("kvferry/compat/hixl/hixl/__init__.py")
    assert command.endswith("kvferry/compat/mooncake/bin/mooncake_http_metadata_server")


def test_what_is_not_there_does_not_import(tmp_path: Path) -> None:
    script = f"""
        eval "$({KVFERRY} compat mooncake --env)"
        ! python3 -c "import mooncake.nonesuch"
        ! python3 -c "from mooncake import nonsense"
    """
    run = shell(script, tmp_path)
    assert run.returncode == 0
    said = [line for line in run.stderr.splitlines() if "Error" in line]
    assert said[0] == "ModuleNotFoundError: No module named 'mooncake.nonesuch'"
    assert said[1].startswith("ImportError: cannot import name 'nonsense' from 'mooncake'")
