"""``kvferry demo``: what it says, refuses and leaves behind."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvferry.cli import main
from kvferry.demo.show.document import QUESTIONS
from tests.demo.tiny import write_tiny

TEXT = "A ferry carries people and cars across the water, again and again, all day long. " * 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text"
    file.write_text(TEXT)
    return file


@contextmanager
def running(folder: Path, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """With temporary files in `folder`, and no browser but one that does nothing."""
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "kvferry", "demo", *map(str, arguments)],
        env={**os.environ, "TMPDIR": str(folder), "BROWSER": "true"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str], what: str) -> list[str]:
    """Its lines up to the one with this in it."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if what in line:
            return lines
    raise AssertionError(f"never said {what!r}: {lines}")


def left_by(folder: Path) -> list[str]:
    """Files in its folder for temporary ones, and processes that were started with it."""
    mark = f"TMPDIR={folder}\0".encode()
    left = [str(path) for path in folder.iterdir()]
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (each / "environ").read_bytes():
                left.append((each / "cmdline").read_bytes().decode())
        except OSError:  # it ended, or is somebody else's
            continue
    return left


def test_served_compared_watched_and_interrupted(model: Path, text: Path, tmp_path: Path) -> None:
    folder, file = tmp_path / "tmp", tmp_path / "out.json"
    options = ["--tokens", "6", "--questions", "1", "--ask", "Who sails?", "--json", file]
    with running(folder, "--model", model, "--document", text, "--watch", *options) as process:
        lines = heard(process, "stays until")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    said = "".join(lines)
    assert "identical: 18 tokens served, 18 computed plainly" in said
    assert "fabric/host/none" in said
    assert "fabric (mapped memory of the node)" in said
    assert "http://127.0.0.1:" in said
    asked = [line[6:-1] for line in lines if line.startswith("   Q  ")]
    assert asked == ["Who sails?", *QUESTIONS[:2]]
    figures = json.loads(file.read_text())
    assert figures["hit_blocks"] >= 0.8 * figures["full_blocks"]
    assert figures["hit_tokens"] == 16 * figures["hit_blocks"]
    assert (figures["differences"], figures["troubles"]) == ([], [])
    assert left_by(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "end"),
    [
        *((at, signal.SIGINT) for at in ("model", "store", "workers", "1. ", "2. ", "3. ")),
        ("1. ", signal.SIGTERM),
        ("3. ", signal.SIGHUP),
    ],
)
def test_whenever_it_is_ended_nothing_is_left(
    model: Path, text: Path, tmp_path: Path, at: str, end: int
) -> None:
    folder = tmp_path / "tmp"
    options = ["--document", text, "--tokens", "500"]
    with running(folder, "--model", model, *options) as process:
        heard(process, at)
        process.send_signal(end)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, "kvferry: interrupted\n")
    assert left_by(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("at", ["workers", "1. ", "2. "])
@pytest.mark.parametrize(
    ("whose", "name"), [("kvferry node", "node"), ("serving.worker", "the prefill worker")]
)
def test_a_process_that_is_killed_is_named_or_made_good(
    model: Path, text: Path, tmp_path: Path, at: str, whose: str, name: str
) -> None:
    """Of two workers the first one, which prefills."""
    folder = tmp_path / "tmp"
    options = ["--document", text, "--tokens", "500"]
    with running(folder, "--model", model, *options) as process:
        heard(process, at)
        os.kill(child(process.pid, whose.split()), signal.SIGKILL)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert "identical: 1000 tokens" in out
    assert f"{name} ended on the way" in out
    assert left_by(folder) == []


def child(parent: int, words: list[str]) -> int:
    """The first process of this one whose command has all of the words."""
    for each in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        command = Path(f"/proc/{each}/cmdline").read_bytes().decode()
        if all(word in command for word in words):
            return int(each)
    raise AssertionError(f"no {words} among the children of {parent}")


def demo(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["kvferry", "demo", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--plot", "out.gif"], "cannot draw out.gif"),
        (["--json", "/nowhere/out.json"], "cannot write /nowhere/out.json"),
        (["--document", "/nowhere/text"], "/nowhere/text cannot be read"),
        (["--model", "/nowhere/model"], "/nowhere/model: No such file"),
        (["--model", __file__], "GGUF"),
        (["--model", "MODEL"], "more than 2048, the context of tiny"),  # our own text
    ],
)
def test_refuses_before_anything_starts(
    arguments: list[str],
    why: str,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [str(model) if word == "MODEL" else word for word in arguments]
    assert demo(monkeypatch, *words) == 2
    out, err = capsys.readouterr()
    assert why in err
    assert (out, err.count("\n")) == ("", 1)


def test_what_is_ignored_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under nohup."""
    met: list[str] = []

    def check() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        met.append("still here")
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr("kvferry.cli.demo._check_packages", check)
        assert demo(monkeypatch) == 130
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert met == ["still here"]


def test_a_package_that_is_missing_is_named_before_anything_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "tokenizers" else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert demo(monkeypatch) == 2
    assert "tokenizers: pip install gguf" in capsys.readouterr().err
