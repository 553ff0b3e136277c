"""``kvferry bench directory``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.store.directory import Plan

__all__ = ["directory_costs"]


def directory_costs(plan: Plan, json: Path | None, to: Console) -> bool:
    """Measure, print, write. False: something was not found, or not told."""
    from rich.table import Table

    from ..bench.result import write_json
    from ..bench.store.directory import run_directory

    found = run_directory(plan)
    table = Table("keys a call", "lookups/s", "per CPU second", "found")
    for row in found.lookups:
        share = f"{row.found:.2%}"
        table.add_row(f"{row.batch}", f"{row.per_second:,}", f"{row.per_cpu_second:,}", share)
    to.print(table)
    to.print(
        f"{found.keys:,} keys at {found.nodes} nodes: {found.key_bytes} bytes a key "
        f"({found.table_bytes} in the table); a new directory knew them after {found.built_s} s",
        soft_wrap=True,
    )
    if json is not None:
        write_json(found, json)
    return found.verified
