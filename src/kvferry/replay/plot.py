"""Hit ratios as a picture: a curve for each policy, by capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ..picture import figure_module
from .run import Result

__all__ = ["Curve", "curves", "draw"]

INCHES = (7.0, 5.0)


class Curve(NamedTuple):
    policy: str
    blocks: list[int]
    prefix: list[float]


def curves(result: Result) -> list[Curve]:
    """Points by capacity, of what was simulated."""
    found: dict[str, dict[int, float]] = {}
    for row in result.rows:
        if row.where == "simulated":
            found.setdefault(row.policy, {})[row.capacity] = row.prefix
    return [
        Curve(policy, sorted(points), [points[at] for at in sorted(points)])
        for policy, points in found.items()
    ]


def draw(result: Result, file: Path) -> None:
    figure = figure_module().Figure(figsize=INCHES, layout="constrained")
    panel = figure.subplots()
    for curve in curves(result):
        panel.plot(curve.blocks, curve.prefix, marker="o", label=curve.policy)
    _dress(panel, result)
    figure.savefig(file)


def _dress(panel: Any, result: Result) -> None:
    figures = result.figures
    if figures.ideal is not None:
        panel.axhline(figures.ideal.prefix, linestyle="--", linewidth=1, label="nothing leaves")
    capacities = sorted({row.capacity for row in result.rows if row.where == "simulated"})
    panel.set_xscale("log")
    panel.set_xticks(capacities, [f"{blocks:,}" for blocks in capacities], rotation=30)
    panel.set_xticks([], minor=True)
    panel.set_ylim(bottom=0)
    panel.set_xlabel(f"capacity, blocks of {figures.block_tokens} tokens")
    panel.set_ylabel("prefix hit ratio, by block")
    panel.set_title(f"{Path(result.file).name}: {figures.requests:,} requests")
    panel.grid(visible=True, which="both", alpha=0.3)
    panel.legend(fontsize="small")
