"""``kvferry bench acl``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["acl_costs"]


def acl_costs(seconds: float, json: Path | None, to: Console) -> None:
    """Measure, print, write."""
    from ..bench.acl_costs import measure_acl
    from ..bench.acl_table import LEGEND, acl_table
    from ..bench.result import write_json
    from ..bench.table import facts_line

    found = measure_acl(seconds)
    to.print(acl_table(found.rows))
    to.print(LEGEND, soft_wrap=True)
    to.print(facts_line(found.machine), soft_wrap=True)
    if json is not None:
        write_json(found, json)
