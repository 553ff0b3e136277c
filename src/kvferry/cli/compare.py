"""``kvferry bench --ab``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.comparison import Comparison

__all__ = ["compare"]


def compare(size: int, layout: str | None, seconds: float, json: Path | None, to: Console) -> bool:
    """Compare, print, write. Was every byte where it belongs?"""
    from rich.console import Console

    from ..bench import ab
    from ..bench.layouts import model
    from ..bench.result import write_json

    keys = None if layout is None else model(layout)
    with Console(stderr=True).status("") as status:
        found = ab.compare(size, keys, seconds, status.update)
    _print(found, to)
    if json is not None:
        write_json(found, json)
    return found.verified


def _print(found: Comparison, to: Console) -> None:
    from ..bench.ab_table import keys_lines, keys_table, variants_lines, variants_table
    from ..bench.table import machine_line

    to.print(variants_table(found))
    for line in variants_lines(found):
        to.print(line, soft_wrap=True)
    to.print(keys_table(found))
    for line in keys_lines(found):
        to.print(line, soft_wrap=True)
    to.print(machine_line(found), soft_wrap=True)
