"""``kvferry replay``: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvferry.cli import main
from tests.replay.samples import LINES, chat_trace, written


def replay(*arguments: str | Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["kvferry", "replay", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return written(tmp_path / "trace.jsonl.gz", LINES["mooncake"]())


def test_policies_and_capacities(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    many = "--policy lru --policy min --capacity 20 --capacity 1GiB --kv-bytes-per-token 64KiB"
    assert replay(trace, *many.split(), "--json", out) == 0
    rows = json.loads(out.read_text())["rows"]
    expected = [("lru", 20), ("lru", 32), ("min", 20), ("min", 32)]
    assert [(row["policy"], row["capacity"]) for row in rows] == expected
    text = capsys.readouterr().out
    assert "mooncake: 20 requests" in text
    assert all(f"{row['prefix']:.4f}" in text for row in rows)


def test_shares_of_the_blocks_are_replayed_when_no_capacity_is_named(
    trace: Path, tmp_path: Path
) -> None:
    assert replay(trace, "--json", tmp_path / "out.json") == 0
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    unique = json.loads((tmp_path / "out.json").read_text())["trace"]["unique"]
    assert [row["capacity"] for row in rows][-1] == unique // 2


def test_statistics_alone(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(trace, "--stats") == 0
    assert "policy" not in capsys.readouterr().out


def test_for_real(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(trace, "--real", "--speed", "max", "--capacity", "30", "--block-bytes", "64") == 0
    assert "real as simulated" in capsys.readouterr().out


def test_a_trace_without_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "azure.csv", LINES["azure"]())
    assert replay(file) == 0
    assert "the format names none" in capsys.readouterr().out
    assert replay(file, "--capacity", "5") == 2
    assert "no_blocks" in capsys.readouterr().err
    assert replay(file, "--real", "--speed", "0", "--capacity", "9", "--block-bytes", "64") == 0
    assert "written 256 at" in capsys.readouterr().out  # four blocks, which nobody shares


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--capacity 0", "capacity"),
        ("--capacity 8GiB", "--block-bytes"),
        ("--policy fifo", "is not one of lru"),
        ("--format csv", "is not one of mooncake"),
        ("--speed -1", "speed of '-1'"),
        ("--speed nan", "speed of 'nan'"),
        ("--at unix:///x", "--at is for --real"),
        ("--plot out.txt", "cannot draw"),
        ("--json /nowhere/out.json", "cannot write"),
        ("--plot /nowhere/out.png", "cannot write"),
        ("--block-tokens 64", "line 1"),
        ("--real --policy min --capacity 5", "no node has"),
        ("--real --capacity 5 --block-bytes 12", "words of 8"),
    ],
)
def test_what_is_refused(
    arguments: str, said: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(trace, *arguments.split()) == 2
    assert said in capsys.readouterr().err


def test_bad_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "trace", [*LINES["bailian"](), "{"])
    assert replay(file, "--capacity", "5") == 2
    assert "line 21" in capsys.readouterr().err
    assert replay(file, "--capacity", "5", "--skip-bad") == 0
    assert "bad lines skipped: 1," in capsys.readouterr().out


def test_samples_are_what_they_are_made_to_be() -> None:
    trace = chat_trace(50)
    assert trace.unique < len(trace.blocks)
