"""One wheel out of whatever registry this Python's pip is set up for."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from ...errors import UsageError

__all__ = ["Progress", "download"]

# progress(bytes so far, bytes in all), from the calling thread
Progress = Callable[[int, int], None]

RAW = re.compile(r"Progress (\d{1,15}) of (\d{1,15})")
SAID = 600  # characters of what pip said
GRACE = 5.0  # seconds


def download(requirement: str, folder: Path, progress: Progress) -> Path:
    """The wheel of it, in `folder`, and nothing of what it requires.

    Blocks until pip has ended; an exception that comes meanwhile, such as KeyboardInterrupt, ends
    it. Its temporary files are in `folder` too. Raises UsageError (pip, registry).
    """
    if importlib.util.find_spec("pip") is None:
        raise UsageError(
            f"this Python has no pip to download {requirement} with: python -m ensurepip",
            cause="pip",
        )
    code, said = _run(requirement, folder, "raw", progress)
    if code == 2 and "progress-bar" in said:  # pip before 24.1
        code, said = _run(requirement, folder, "off", progress)
    wheels = list(folder.glob("*.whl"))
    if code or len(wheels) != 1:
        raise UsageError(f"pip cannot download {requirement}: {_last(said)}", cause="registry")
    return wheels[0]


def _run(requirement: str, folder: Path, bar: str, progress: Progress) -> tuple[int, str]:
    """How pip ended, and what it complained about."""
    options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]
    quiet = ["--disable-pip-version-check", "--progress-bar", bar]
    pip = [sys.executable, "-m", "pip", "download", *options, *quiet]
    command = ["env", f"TMPDIR={folder}", *pip, "--dest", str(folder), requirement]
    with (
        open(folder / "said", "w+", errors="replace") as said,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True
        ) as process,
    ):
        try:
            _follow(process.stdout or (), progress)
            code = process.wait()
        except BaseException:
            _end(process)
            raise
        said.seek(0)
        return code, said.read()


def _follow(lines: IO[str] | Iterable[str], progress: Progress) -> None:
    for line in lines:
        if found := RAW.match(line):
            progress(int(found[1]), int(found[2]))


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


def _last(said: str) -> str:
    """The complaints in it, else all of it; the end of that."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    if "connection broken" in said:
        errors.append("the registry could not be reached")
    return "; ".join(errors or lines)[-SAID:] or "it does not say why"
