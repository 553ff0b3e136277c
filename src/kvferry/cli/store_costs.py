"""``kvferry bench store``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.store import Plan, Rival

__all__ = ["store_costs"]


def store_costs(plan: Plan, rivals: Sequence[Rival], json: Path | None, to: Console) -> bool:
    """Measure, print, write. False: some bytes were wrong."""
    from ..bench.progress import track
    from ..bench.result import write_json
    from ..bench.sizes import format_size
    from ..bench.store import run_store
    from ..bench.store.table import LEGEND, lines, rows_table
    from ..bench.table import facts_line

    found = run_store(plan, track, rivals)
    to.print(rows_table(found.rows))
    for line in (LEGEND, *lines(found)):
        to.print(line, soft_wrap=True)
    sizes = f"{format_size(plan.size)} a side, pools of {plan.pool >> 20} MiB"
    to.print(f"{facts_line(found.machine)}, {sizes}", soft_wrap=True)
    if json is not None:
        write_json(found, json)
    return found.verified
