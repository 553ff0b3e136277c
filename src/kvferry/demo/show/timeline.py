"""A run as a picture: when each layer was computed and arrived, and times to the first token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...picture import figure_module
from ..serving import Hop
from .scenes import Played
from .summary import Summary

__all__ = ["Bar", "bars", "draw"]

INCHES = (12.0, 5.0)


class Bar(NamedTuple):
    """KV of one layer, seconds since the prompt was begun with: computed since, sent, arrived."""

    layer: int
    since: float
    sent: float
    arrived: float


def bars(hops: Sequence[Hop], since: float) -> list[Bar]:
    """In the order in which they were sent; what comes before a layer is sent is computing it."""
    found, before = [], 0.0
    for hop in hops:
        sent = hop.at - since
        found.append(Bar(hop.layer, before, sent, sent + hop.seconds))
        before = sent
    return found


def draw(played: Played, summary: Summary, file: Path) -> None:
    """Write the picture to `file`."""
    figure = figure_module().Figure(figsize=INCHES, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    _timeline(left, bars(played.served[0].hops, played.served[0].since))
    _first_tokens(right, summary)
    figure.savefig(file)


def _timeline(panel: Any, drawn: Sequence[Bar]) -> None:
    layers = [bar.layer for bar in drawn]
    computing = [bar.sent - bar.since for bar in drawn]
    panel.barh(layers, computing, left=[bar.since for bar in drawn], label="computed")
    sending = [bar.arrived - bar.sent for bar in drawn]
    panel.barh(layers, sending, left=[bar.sent for bar in drawn], label="on its way")
    arrived = [bar.arrived for bar in drawn]
    panel.scatter(arrived, layers, s=8, color="black", zorder=3, label="there")
    panel.invert_yaxis()
    panel.set_xlabel("seconds since the prompt was begun with")
    panel.set_ylabel("layer")
    panel.set_title("KV of the first prompt, layer by layer; one diagonal a chunk of it")
    panel.legend(fontsize="small")


def _first_tokens(panel: Any, summary: Summary) -> None:
    times = {
        "plainly\ncomputed": summary.without_reuse,
        "handed\nover": summary.first,
        "from\nthe store": summary.with_reuse,
    }
    panel.bar_label(panel.bar(list(times), list(times.values())), fmt="%.2f s")
    panel.set_ylabel("seconds to the first token")
    panel.set_title(f"{summary.prompt_tokens:,} tokens of prompt")
