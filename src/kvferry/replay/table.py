"""A replay as people read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table

from .figures import Figures, Spread
from .run import Row

__all__ = ["figure_lines", "legend", "measured_lines", "rows_table"]

RATIOS = (
    "prefix: of all blocks asked for those that were there with all blocks before them, which is "
    "what an engine can use. block: those that were there. token: of all tokens of prompts those "
    "in the prefix"
)
COMPARED = ". as simulated: the store hit the same blocks, request by request"

COLUMNS = ("policy", "blocks", "prefix", "block", "token", "s")
NUMBERS = slice(1, 6)
SAME = {None: "", True: "as simulated", False: "not as simulated"}


def rows_table(rows: Iterable[Row]) -> Table:
    table = Table(*COLUMNS, "", box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[NUMBERS]:
        column.justify = "right"
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> list[str]:
    ratios = (f"{ratio:.4f}" for ratio in (row.prefix, row.block, row.token))
    note = "" if row.where == "simulated" else f"{row.where} {SAME[row.same]}".strip()
    blocks = f"{row.capacity}" if row.capacity else ""
    return [row.policy, blocks, *ratios, f"{row.seconds:.2f}", note]


def legend(rows: Iterable[Row]) -> str:
    """What the words of the table mean."""
    return RATIOS + COMPARED * any(row.same is not None for row in rows)


def figure_lines(figures: Figures) -> Iterator[str]:
    """What is known of the trace."""
    skipped = f", bad lines skipped: {figures.skipped}," if figures.skipped else ""
    rate = figures.requests / figures.seconds if figures.seconds else 0.0
    pace = f" ({rate:.2f} a second)" if rate else ""
    yield (
        f"{figures.format}: {figures.requests:,} requests{skipped} in "
        f"{figures.seconds:,.1f} s{pace}"
    )
    if figures.ideal is None:
        yield "blocks: the format names none, so there are no hits to count"
    else:
        yield (
            f"blocks of {figures.block_tokens} tokens: {figures.blocks:,} asked for, "
            f"{figures.unique:,} different; if nothing ever left, hits are prefix "
            f"{figures.ideal.prefix:.4f}, token {figures.ideal.token:.4f}"
        )
    yield f"prompt tokens: {_spread(figures.inputs)}"
    yield f"answer tokens: {_spread(figures.outputs)}"


def _spread(of: Spread) -> str:
    return f"mean {of.mean:,.0f}, median {of.median:,.0f}, p90 {of.p90:,.0f}, most {of.most:,}"


def measured_lines(rows: Iterable[Row]) -> Iterator[str]:
    """What was measured in real stores."""
    for row in rows:
        if (found := row.measured) is None:
            continue
        times = ", ".join(f"{name} {ms:.2f}" for name, ms in found.latencies.items())
        capacity = f" {row.capacity}" if row.capacity else ""
        yield (
            f"{row.where} {row.policy}{capacity}: {found.seconds:.2f} s; read "
            f"{found.read_bytes:,} bytes at {found.read_gbps:.3f} GB/s, every byte verified; "
            f"written {found.written_bytes:,} at {found.written_gbps:.3f} GB/s; a request's ms: "
            f"{times}; {found.late} began late, by {found.latest:.3f} s at most; "
            f"{found.vanished} blocks left in between, {found.refused} were refused"
        )
