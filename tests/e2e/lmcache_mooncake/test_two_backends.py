"""LMCache's own connector to Mooncake's store, on this package: what one process stored, another
one reads, byte for byte.

Nothing of LMCache is changed. Run by tools/e2e.sh lmcache_mooncake.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("lmcache") is None,
        reason="needs lmcache: tools/e2e.sh lmcache_mooncake",
    ),
]

SCRIPT = Path(__file__).with_name("backend.py")
SOME, OTHERS, NEVER = [1, 2, 3], [4, 5], [6]


class Backend:
    """Begins at once; ends with the context."""

    def __init__(self, master: str, with_metadata: bool, env: dict[str, str], log: Path) -> None:
        read, write = os.pipe()
        with log.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, str(SCRIPT), master, str(with_metadata), str(write)],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=env,
                pass_fds=[write],
            )
        os.close(write)
        self._answers = os.fdopen(read)
        self._log = log
        assert self._answer() is None

    def put(self, numbers: list[int]) -> None:
        assert self._ask({"put": numbers}) is None

    def get(self, numbers: list[int]) -> list[str]:
        found: list[str] = self._ask({"get": numbers})
        return found

    def _ask(self, request: dict[str, list[int]]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        line = self._answers.readline()
        assert line, self._log.read_text()[-3000:]
        return json.loads(line)

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()


@pytest.mark.parametrize("with_metadata", [True, False])
def test_what_one_stored_another_reads(
    with_metadata: bool, env: dict[str, str], master: str, tmp_path: Path
) -> None:
    with (
        Backend(master, with_metadata, env, tmp_path / "one.log") as one,
        Backend(master, with_metadata, env, tmp_path / "other.log") as other,
    ):
        one.put(SOME)
        assert other.get(SOME + NEVER) == ["right"] * len(SOME) + ["missing"]
        other.put(OTHERS)
        assert one.get(OTHERS + SOME) == ["right"] * len(OTHERS + SOME)
