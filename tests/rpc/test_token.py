"""The token file: made once, by whoever is first; trusted when nobody else can touch it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kvferry.config import Options
from kvferry.errors import RightsError
from kvferry.rpc import token
from kvferry.testing import Child, Parent


def refusal(file: Path) -> str:
    with pytest.raises(RightsError) as caught:
        token.load(Options(token_file=file))
    assert caught.value.cause == "token"
    assert str(file) in str(caught.value)
    return str(caught.value)


def written(file: Path, content: bytes, mode: int = 0o600) -> Path:
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_a_given_token_wins(tmp_path: Path) -> None:
    assert token.load(Options(token_file=tmp_path / "none", token=b"mine")) == b"mine"
    assert not (tmp_path / "none").exists()


def test_an_empty_given_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RightsError, match="empty"):
        token.load(Options(token_file=tmp_path / "none", token=b""))


def test_a_file_is_read_without_its_white_space(tmp_path: Path) -> None:
    file = written(tmp_path / "token", b"  secret\n")
    assert token.load(Options(token_file=file)) == b"secret"


def test_a_missing_file_is_made(tmp_path: Path) -> None:
    file = tmp_path / "state" / "kvferry" / "token"
    made = token.load(Options(token_file=file))
    assert len(bytes.fromhex(made.decode())) == 32
    assert token.load(Options(token_file=file)) == made
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666, 0o610])
def test_a_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    file = written(tmp_path / "token", b"secret", mode)
    assert f"chmod 600 {file}" in refusal(file)


@pytest.mark.parametrize("content", [b"", b" \n\t"])
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "empty" in refusal(written(tmp_path / "token", content))


def test_a_long_file_is_refused(tmp_path: Path) -> None:
    assert "4096" in refusal(written(tmp_path / "token", b"x" * 4097))


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    assert "regular" in refusal(tmp_path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    assert "regular" in refusal(fifo)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    written(tmp_path / "file", b"")
    assert "cannot be used" in refusal(tmp_path / "file" / "token")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "token", b"secret")
    os.chown(file, 12345, 12345)
    assert "uid 12345" in refusal(file)


def race(parent: Parent, file: str) -> str:
    parent.tell("ready")
    parent.hear()
    return token.load(Options(token_file=Path(file))).decode()


def test_racing_processes_end_with_one_token(tmp_path: Path, spawn: Callable[..., Child]) -> None:
    file = tmp_path / "deep" / "token"
    racers = [spawn(race, str(file)) for _ in range(4)]
    for racer in racers:
        assert racer.hear() == "ready"
    for racer in racers:
        racer.tell("go")
    assert {racer.result() for racer in racers} == {file.read_text().strip()}
    assert list(file.parent.iterdir()) == [file]
