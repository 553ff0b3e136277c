"""Figures of an SSD tier's log as people read them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from .ssd import SsdResult, SsdRow

__all__ = ["legend", "ssd_table"]

COLUMNS = ("call", "GB/s", "plain GB/s", "of plain", "wanted", "verified")


def ssd_table(rows: Iterable[SsdRow]) -> Table:
    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for column in table.columns[1:5]:
        column.justify = "right"
    for row in rows:
        met = "met" if row.of_plain >= row.wanted else "NOT MET"
        cells = (f"{row.ours:.2f}", f"{row.plain:.2f}", f"{row.of_plain:.2f}")
        wanted = f"{row.wanted:.2f} {met}"
        verified = "yes" if row.verified else "NO"
        style = None if row.verified else "bold red"
        table.add_row(row.name, *cells, wanted, verified, style=style)
    return table


def legend(found: SsdResult) -> str:
    """What stands below the table."""
    way = "past the page cache" if found.direct else "THROUGH THE PAGE CACHE: of memory, mostly"
    return (
        f"{found.bytes >> 20} MiB in {found.folder}, {way}. Records of 1 MiB. append: sealed "
        "segments, plain: as many bytes forced to the disk. read on: eight records a call; read "
        "one: one anywhere. scan: opening without indices. Plain loops take 4 MiB a request"
    )
