"""What the demo needs is imported when it is used: kvferry itself needs none of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import {module}
print(*(name for name in {names} if name in sys.modules))
"""


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("kvferry", ["kvferry.demo", "gguf", "tokenizers", "jinja2"]),
        ("kvferry.demo.model", ["gguf", "tokenizers", "jinja2"]),
    ],
)
def test_imported_late(module: str, names: list[str]) -> None:
    program = PROGRAM.format(module=module, names=names)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")
