"""Libraries that stand in for ACL, made of a few lines of C."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvferry.runtime.cann.functions import FUNCTIONS, TEXTS

VERSION = """
int aclrtGetVersion(int *major, int *minor, int *patch)
{ *major = 1; *minor = 17; *patch = 3; return 0; }
"""
WORDS = {
    "aclrtGetVersion": VERSION,
    "aclrtGetSocName": 'const char *aclrtGetSocName(void) { return "Ascend910_0000"; }\n',
}


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "cc"))


def build(
    target: Path,
    own: Mapping[str, str] | None = None,
    leave_out: Sequence[str] = (),
    only: Sequence[str] = tuple(FUNCTIONS),
) -> Path:
    """A library with the functions `only`, less those of `leave_out`.

    own  the text of some of them; the others return 0, or no text
    """
    own = own or {}
    texts = {name: WORDS.get(name, _silent(name)) for name in only} | dict(own)
    source = target.with_suffix(".c")
    source.write_text("\n".join(text for name, text in texts.items() if name not in leave_out))
    command = [*compiler(), "-shared", "-fPIC", "-w", str(source), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return target


def _silent(name: str) -> str:
    return (
        f"const char *{name}() {{ return 0; }}"
        if name in TEXTS
        else f"int {name}() {{ return 0; }}"
    )
