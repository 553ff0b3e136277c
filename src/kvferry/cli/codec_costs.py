"""``kvferry bench codecs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["codec_costs"]


def codec_costs(seconds: float, json: Path | None, to: Console) -> bool:
    """Measure, print, write. False: some values were further off than stated."""
    from ..bench.result import write_json
    from ..bench.store.codecs import measure_codecs
    from ..bench.store.codecs_table import LEGEND, codecs_table
    from ..bench.table import facts_line

    found = measure_codecs(seconds)
    to.print(codecs_table(found.rows))
    to.print(LEGEND, soft_wrap=True)
    to.print(facts_line(found.machine), soft_wrap=True)
    if json is not None:
        write_json(found, json)
    return found.verified
