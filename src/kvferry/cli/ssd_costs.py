"""``kvferry bench ssd``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ssd_costs"]


def ssd_costs(folder: Path, size: int, json: Path | None, to: Console) -> bool:
    """Measure, print, write. False: some bytes were wrong."""
    from ..bench.result import write_json
    from ..bench.store.ssd import measure_ssd
    from ..bench.store.ssd_table import legend, ssd_table
    from ..errors import UsageError

    if not folder.is_dir():
        raise UsageError(f"no folder {folder}", cause="bench")
    found = measure_ssd(folder, size)
    to.print(ssd_table(found.rows))
    to.print(legend(found), soft_wrap=True)
    if json is not None:
        write_json(found, json)
    return all(row.verified for row in found.rows)
