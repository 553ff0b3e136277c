"""What codecs make of KV blocks, as people read it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from .codecs import CodecRow

__all__ = ["LEGEND", "codecs_table"]

LEGEND = (
    "GB/s of the values' own bytes, in one thread; copy: of copying them in turns with it; max "
    "error: of the greatest magnitude of the same channel; mean error: of the mean magnitude"
)

COLUMNS = (
    "blocks",
    "codec",
    "ratio",
    "encode GB/s",
    "decode GB/s",
    "copy GB/s",
    "max error",
    "mean error",
    "verified",
)


def codecs_table(rows: Iterable[CodecRow]) -> Table:
    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for column in table.columns[2:-1]:
        column.justify = "right"
    for row in rows:
        table.add_row(
            row.blocks,
            row.codec,
            f"{row.ratio:.2f}",
            f"{row.encode_gbps:.2f}",
            f"{row.decode_gbps:.2f}",
            f"{row.copy_gbps:.2f}",
            f"{row.max_error:.4f}",
            f"{row.mean_error:.4f}",
            "yes" if row.verified else "NO",
        )
    return table
