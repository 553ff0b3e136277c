"""Tables, files and pictures of a replay."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kvferry.replay import Plan, run, write_json
from kvferry.replay.plot import curves, draw
from kvferry.replay.progress import watched
from kvferry.replay.table import figure_lines, measured_lines, rows_table
from tests.replay.samples import chat_trace

TRACE = chat_trace(30)
SIMULATED = run(Path("chats.jsonl"), TRACE, Plan(("lru", "min"), (100, 20)))


def printed(what: Any) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(what)
    text = console.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def test_each_policy_is_replayed_at_each_capacity() -> None:
    asked = [(row.policy, row.capacity) for row in SIMULATED.rows]
    assert asked == [("lru", 100), ("lru", 20), ("min", 100), ("min", 20)]
    text = printed(rows_table(SIMULATED.rows))
    assert "prefix" in text
    assert "block" in text
    assert all(f"{row.prefix:.4f}" in text for row in SIMULATED.rows)


def test_figures_are_told() -> None:
    text = "\n".join(figure_lines(SIMULATED.figures))
    assert "30 requests" in text
    assert f"{len(TRACE.blocks):,} asked for, {TRACE.unique:,} different" in text
    assert f"prefix {SIMULATED.figures.ideal.prefix:.4f}" in text  # type: ignore[union-attr]


def test_real_rows_say_whether_they_are_as_simulated(tmp_path: Path) -> None:
    result = run(Path("x"), TRACE, Plan(("lru",), (20,), 64, None, 0.0))
    assert [row.where for row in result.rows] == ["simulated", "real"]
    assert result.rows[1].same
    assert "real as simulated" in printed(rows_table(result.rows))
    (line,) = measured_lines(result.rows)
    assert "every byte verified" in line
    write_json(result, tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["trace"]["requests"] == 30
    assert written["trace"]["ideal"].keys() == {"prefix", "block", "token"}
    assert written["rows"][1]["measured"]["written_bytes"] > 0
    assert written["rows"][0]["measured"] is None


def test_curves_are_by_capacity() -> None:
    lru, best = curves(SIMULATED)
    assert (lru.policy, lru.blocks) == ("lru", [20, 100])
    assert best.prefix[1] == SIMULATED.rows[2].prefix


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(SIMULATED, tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_no_bar_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with watched(10, 2) as watcher:
        watcher("lru")(10)
    assert capfd.readouterr() == ("", "")


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        "kvferry.replay.progress.Console",
        lambda stderr: Console(file=screen, force_terminal=True, width=80),
    )
    with watched(10, 2) as watcher:
        watcher("lru 20")(10)
    assert "lru 20" in screen.getvalue()
