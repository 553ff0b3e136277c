"""What paged KV costs, as people read it."""

from __future__ import annotations

from rich.table import Table

from ..sizes import format_size
from .run import PagedResult
from .steps import BLOCK_TOKENS, BLOCKS

__all__ = ["LEGEND", "blocks_table", "pages_table"]

LEGEND = (
    "GB/s: of batches that layouts.batch made before; made: it makes one of each request, which is "
    "moved; engine: as by kvferry bench layout; limit: the fastest bare loop; ratios: to engine"
)


def blocks_table(found: PagedResult) -> Table:
    title = f"a request of {BLOCKS:,} blocks of {BLOCK_TOKENS} tokens"
    table = _table(title, "us", f"{found.peer or 'peer'} us", "theirs / ours", "rounds", "verified")
    for row in found.blocks:
        beside = ("-", "-") if row.peer_us is None else (f"{row.peer_us:.1f}", f"{row.ratio:.2f}")
        table.add_row(row.step, f"{row.us:.1f}", *beside, str(row.rounds), _said(row.verified))
    return table


def pages_table(found: PagedResult) -> Table:
    speeds = "GB/s", "made", "engine", "limit", "ratio", "made ratio", "batch us"
    table = _table("layout", "op", "page", "blocks", *speeds, "verified")
    for row in found.pages:
        about = row.layout, row.op, f"{format_size(row.page)} in {row.pieces}", str(row.blocks)
        gbps = row.gbps, row.made_gbps, row.engine_gbps, row.limit_gbps
        figures = (f"{figure:.2f}" for figure in (*gbps, row.ratio, row.made_ratio))
        table.add_row(*about, *figures, f"{row.batch_us:.0f}", _said(row.verified))
    return table


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for column in table.columns[1:-1]:
        column.justify = "right"
    return table


def _said(verified: bool) -> str:
    return "yes" if verified else "NO"
