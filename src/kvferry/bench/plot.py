"""A run as a picture: bandwidth against block size, on logarithmic axes, a panel for each op."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path as File
from typing import Any, NamedTuple

from ..picture import figure_module
from .result import Result, Row
from .sizes import format_size
from .table import path_text

__all__ = ["Line", "draw", "lines"]

PANEL_INCHES = (7.0, 5.0)


class Line(NamedTuple):
    """GB/s by bytes of a block; `limit` is what the machine itself allows."""

    label: str
    blocks: list[int]
    gbps: list[float]
    limit: list[float]


def draw(result: Result, file: File) -> None:
    """Write the picture of all rows to `file`."""
    ops = list(dict.fromkeys(row.op for row in result.rows))
    width, height = PANEL_INCHES
    figure = figure_module().Figure(figsize=(width * len(ops), height), layout="constrained")
    panels = figure.subplots(1, len(ops), sharey=True, squeeze=False)[0]
    for panel, op in zip(panels, ops, strict=True):
        _panel(panel, op, lines(row for row in result.rows if row.op == op))
    figure.suptitle(f"{result.machine['cpu']}, {format_size(result.settings['size'])} a side")
    figure.savefig(file)


def lines(rows: Iterable[Row]) -> list[Line]:
    """One for each path, batch and number of streams, points by size of block. Pure.

    Batches of large blocks are shortened; such a row continues the line of the largest batch.
    """
    rows = list(rows)
    largest: dict[int, int] = {}
    for row in rows:
        largest[row.block] = max(largest.get(row.block, 0), row.batch)
    most = max(largest.values(), default=0)
    found: dict[str, list[Row]] = {}
    for row in rows:
        batch = most if row.batch == largest[row.block] else row.batch
        label = f"{row.preset or path_text(row)} x {batch}, {row.streams} streams"
        found.setdefault(label, []).append(row)
    return [_line(label, points) for label, points in found.items()]


def _line(label: str, rows: list[Row]) -> Line:
    rows = sorted(rows, key=lambda row: row.block)
    return Line(
        label,
        [row.block for row in rows],
        [row.gbps for row in rows],
        [row.limit_gbps for row in rows],
    )


def _panel(panel: Any, op: str, drawn: list[Line]) -> None:
    for line in drawn:
        (curve,) = panel.plot(line.blocks, line.gbps, marker="o", label=line.label)
        panel.plot(line.blocks, line.limit, linestyle="--", linewidth=1, color=curve.get_color())
    blocks = sorted({block for line in drawn for block in line.blocks})
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(blocks, [format_size(block) for block in blocks], rotation=30)
    panel.set_title(f"{op} (dashed: the machine's limit)")
    panel.set_xlabel("block")
    panel.set_ylabel("GB/s")
    panel.grid(visible=True, which="both", alpha=0.3)
    panel.legend(fontsize="small")
