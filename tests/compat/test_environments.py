"""What a shell is told, so that it and every process below it find a package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kvferry.compat import OFFERS, exports, places

ROOT = Path(__file__).parents[2]
TREES = ROOT / "src/kvferry/compat"


def shell(script: str, cwd: Path, **environ: str) -> list[str]:
    run = subprocess.run(
        ["sh", "-euc", script],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_every_offer_has_its_tree_and_every_tree_its_offer() -> None:
    trees = {path.name for path in TREES.iterdir() if path.is_dir() and path.name.isalpha()}
    assert trees == set(OFFERS)
    assert all((TREES / name / name / "__init__.py").exists() for name in OFFERS)


@pytest.mark.parametrize("folder", ["plain", "with space", 'it\'s "$HOME" `id`;*'])
def test_any_path_survives_the_shell(folder: str, tmp_path: Path) -> None:
    trees, python = tmp_path / folder, tmp_path / "python here" / "python3"
    (trees / "mooncake" / "bin").mkdir(parents=True)
    script = f'{exports(places("mooncake", trees, python))}\necho "$PATH"\necho "$PYTHONPATH"'
    tree = trees / "mooncake"
    for before, behind in (("", ""), ("/a b:/c", ":/a b:/c")):
        environ = {"PYTHONPATH": before} if before else {}
        path, pythonpath = shell(script, tmp_path, **environ)
        assert path == f"{tree}/bin:{python.parent}:{os.environ['PATH']}"
        assert pythonpath == f"{tree}{behind}"


def test_the_lines_can_be_evaluated_unquoted_and_twice(tmp_path: Path) -> None:
    (tmp_path / "a  b").mkdir()
    (tmp_path / "say").write_text(
        "#!/bin/sh\ncat <<'END'\n" + exports(places("n", tmp_path / "c", Path("/x/y"))) + "\nEND\n"
    )
    (tmp_path / "say").chmod(0o755)
    script = 'eval $(./say); eval "$(./say)"; echo "$PYTHONPATH"'
    assert shell(script, tmp_path) == [f"{tmp_path}/c/n:{tmp_path}/c/n"]
