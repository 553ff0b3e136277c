"""``kvferry bench paged``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.paged import Vllm

__all__ = ["paged_costs"]


def paged_costs(
    size: int, seconds: float, peer: Vllm | None, json: Path | None, to: Console
) -> bool:
    """Measure, print, write. False: some bytes were wrong, or blocks not found."""
    from ..bench.paged import measure_paged
    from ..bench.paged.table import LEGEND, blocks_table, pages_table
    from ..bench.result import write_json
    from ..bench.sizes import format_size
    from ..bench.table import facts_line

    found = measure_paged(size, seconds, peer)
    to.print(blocks_table(found))
    to.print()
    to.print(pages_table(found))
    to.print(LEGEND, soft_wrap=True)
    to.print(f"{facts_line(found.machine)}, {format_size(size)} a side", soft_wrap=True)
    if json is not None:
        write_json(found, json)
    return found.verified
