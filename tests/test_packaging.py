"""What is shipped, and what a build says on a machine that cannot build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = ["setup.py", "pyproject.toml", "README.md", "LICENSE", "src"]
BUILT = shutil.ignore_patterns("*.so", "core.c", "__pycache__", "*.egg-info")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a fresh checkout holds, without tests, that a build may write to."""
    for name in SHIPPED:
        source, target = ROOT / name, tmp_path / "checkout" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=BUILT)
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    return tmp_path / "checkout"


def setup(checkout: Path, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "CC"}
    return subprocess.run(
        [sys.executable, "setup.py", "-q", *command],
        cwd=checkout,
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )


def build(checkout: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    target = str(checkout / "out")
    return setup(checkout, "build_ext", "--build-lib", target, "--build-temp", target, **environ)


def sources(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.suffix in {".html", ".py", ".pyi", ".pyx", ".pxi", ".h", ".typed"}
    }


def commands_in(folder: Path) -> set[str]:
    """What lies in a bin folder and may be executed."""
    files = folder.glob("kvferry/compat/*/bin/*")
    return {str(path.relative_to(folder)) for path in files if os.access(path, os.X_OK)}


def test_a_package_holds_every_source_and_no_test(checkout: Path, tmp_path: Path) -> None:
    run = setup(checkout, "build_py", "--build-lib", str(tmp_path / "lib"))
    assert run.returncode == 0, run.stderr
    assert sources(tmp_path / "lib") == sources(checkout / "src")
    assert {path.name for path in (tmp_path / "lib").iterdir()} == {"kvferry"}
    commands = commands_in(checkout / "src")
    assert commands
    assert commands_in(tmp_path / "lib") == commands


def test_a_source_archive_builds_the_same_package(checkout: Path, tmp_path: Path) -> None:
    run = setup(checkout, "sdist", "--formats=gztar", "--dist-dir", str(tmp_path / "dist"))
    assert run.returncode == 0, run.stderr
    (archive,) = (tmp_path / "dist").iterdir()
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert {f"src/{name}" for name in sources(checkout / "src")} <= names
    assert {f"src/{name}" for name in commands_in(checkout / "src")} <= names
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE"} <= names


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"CC": "/nonexistent"}, "Not found: /nonexistent"),
        ({"PATH": "/nonexistent"}, "Not found: "),
        ({"CC": "false"}, "false says: exit status 1"),
        ({"CC": f"{sys.executable} -I -m no_such_compiler cc"}, "No module named no_such_compiler"),
    ],
)
def test_no_compiler_is_one_line(environ: dict[str, str], why: str, checkout: Path) -> None:
    run = build(checkout, **environ)
    assert run.returncode == 1
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith("kvferry needs a C11 compiler: install gcc or clang")
    assert 'CC="python -I -m ziglang cc"' in line
    assert why in line


def test_an_error_in_our_code_is_told_in_the_words_of_the_compiler(checkout: Path) -> None:
    core = checkout / "src/kvferry/_core"
    (core / "broken.h").write_text("static int kvf_broken(void) { return kvf_nonesuch; }\n")
    (core / "core.pyx").write_text('cdef extern from "broken.h":\n    pass\n')
    run = build(checkout)
    assert run.returncode != 0
    assert "kvf_nonesuch" in run.stderr
    assert "install gcc" not in run.stderr


def test_missing_python_headers_are_named(checkout: Path) -> None:
    script = (checkout / "setup.py").read_text()
    elsewhere = 'sysconfig.get_path = lambda name: "/nonexistent/{}".format(name)\nCORE = '
    (checkout / "setup.py").write_text(script.replace("CORE = ", elsewhere, 1))
    run = build(checkout)
    assert run.returncode == 1
    assert run.stderr.startswith("kvferry needs the headers of Python itself: install python3-dev")


def test_the_installed_package_is_this_one() -> None:
    from kvferry._core import core

    assert metadata.version("kvferry") in (ROOT / "pyproject.toml").read_text()
    assert str(core.__file__).endswith(sysconfig.get_config_var("EXT_SUFFIX"))
