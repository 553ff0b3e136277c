from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from kvferry import UsageError
from kvferry.bench.plot import draw, lines
from kvferry.bench.result import Costs, Result, Row
from kvferry.picture import check_plot

PATH = {"link": "fabric", "submitter": "host", "staging": "none", "addressing": "mapped"}


def row(op: str, block: int, batch: int, gbps: float, streams: int = 1) -> Row:
    return Row(
        path=PATH, preset=None, op=op, layout=None, block=block, batch=batch, streams=streams,
        callers=1, threads=streams, repeats=5, bytes=1, gbps=gbps, gbps_min=gbps, gbps_max=gbps,
        limit_gbps=2 * gbps, limit="memcpy/nt", limit_variant="memcpy", ratio=0.5, p50_us=1.0,
        p99_us=1.0, verified=True, staged_bytes=0, submissions={}, cpu_s={},
    )  # fmt: skip


ROWS = [
    row("write", 1 << 20, 128, 8.0),
    row("write", 4096, 1, 1.0),
    row("write", 4096, 128, 4.0),
    row("write", 1 << 24, 16, 9.0),  # a shortened batch
    row("write", 1 << 20, 1, 6.0),
]


def test_a_line_has_its_points_by_block_and_goes_on_where_batches_are_shortened() -> None:
    single, large = sorted(lines(ROWS), key=lambda line: line.gbps)
    assert single.blocks == [4096, 1 << 20]
    assert large.label == "fabric/host/none x 128, 1 streams"
    assert large.blocks == [4096, 1 << 20, 1 << 24]
    assert large.gbps == [4.0, 8.0, 9.0]
    assert large.limit == [8.0, 16.0, 18.0]


def test_an_unknown_kind_of_picture_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cannot draw a.gif: know .png, .svg, .pdf"):
        check_plot(Path("a.gif"))


def test_without_matplotlib_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match="pip install matplotlib"):
        check_plot(Path("a.png"))


RESULT = Result(
    {"cpu": "some"},
    {"size": 1 << 30},
    [*ROWS, row("read", 4096, 1, 1.5)],
    Costs(1.0, 1.0, 1.0, 1.0, 1.0, {}, 1, 0),
)


@pytest.fixture(scope="module")
def _drawn_before(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first picture opens files of fonts, which stay open."""
    pytest.importorskip("matplotlib")
    draw(RESULT, tmp_path_factory.mktemp("first") / "a.png")


@pytest.mark.usefixtures("_drawn_before")
@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_draws(suffix: str, magic: bytes, tmp_path: Path) -> None:
    file = tmp_path / f"a.{suffix}"
    check_plot(file)
    draw(RESULT, file)
    assert file.read_bytes().startswith(magic)
