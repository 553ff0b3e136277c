"""A run as people read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from .comparison import Comparison
from .result import Costs, Result, Row
from .sizes import format_size
from .yardsticks import MEMORY

__all__ = [
    "LEGEND",
    "costs_line",
    "facts_line",
    "machine_line",
    "path_text",
    "paths_line",
    "peculiar_lines",
    "rows_table",
]

LEGEND = (
    "limit: GB/s of a bare loop over the same blocks in as many threads, in turn with the case: "
    "the machine's fastest memory copy, or the loop named below; ratio: GB/s to limit (above 1: "
    "noise, blocks of 4 KiB fetched ahead, or a socket loop that sleeps where a wire does not)"
)

COLUMNS = (
    "path",
    "op",
    "block",
    "batch",
    "streams",
    "GB/s",
    "min",
    "max",
    "limit",
    "ratio",
    "p50 us",
    "p99 us",
    "verified",
)
WORDS = 3  # leading columns that are words


def rows_table(rows: Iterable[Row]) -> Table:
    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[WORDS - 1 : -1]:
        column.justify = "right"
    for row in rows:
        table.add_row(*_cells(row), style=None if row.verified else "bold red")
    return table


def peculiar_lines(result: Result) -> list[str]:
    """What a plain run over mapped memory has no need to say."""
    settings = result.settings
    said = []
    loops = {path_text(row): row.limit for row in result.rows}
    if set(loops.values()) - {MEMORY.name}:
        named = "; ".join(f"{path}: {loop}" for path, loop in loops.items())
        said.append(f"limits by path: {named}")
    if settings["pattern"] is not None:
        said.append(
            f"{settings['pattern']}, {settings['peers']} peers: GB/s of all together, from the "
            "first begin to the last end; a side is shared out among them"
        )
    if settings["threads"] > 1:
        said.append(f"{settings['threads']} threads submit on each channel; GB/s of all together")
    return said


def costs_line(costs: Costs) -> str:
    memory = " + ".join(f"{size / (1 << 20):.0f}" for size in costs.memory_bytes.values())
    return (
        f"4 KiB: bare copy {costs.bare_copy_us:.2f} us, inline write {costs.inline_us:.2f} us; "
        f"4,096 pairs: built in {costs.build_us:.1f} us, resolved in {costs.resolve_us:.1f} us; "
        f"import {costs.import_s:.2f} s; memory beyond the pools {memory} MiB, "
        f"{costs.growth_bytes / 1024:+.0f} KiB over {costs.growth_calls:,} calls"
    )


def paths_line(costs: Costs) -> str:
    """What path_costs measured; what was refused is left out."""
    told = {
        "submitting 1 descriptor to a coprocessor": costs.paths.get("submit_one_us"),
        "4,096 descriptors": costs.paths.get("submit_many_us"),
        "4 KiB written over tcp": costs.paths.get("tcp_write_us"),
        "a bare C socket round trip": costs.paths.get("round_trip_us"),
    }
    return "; ".join(f"{what} {us:.1f} us" for what, us in told.items() if us is not None)


def machine_line(result: Result | Comparison) -> str:
    return f"{facts_line(result.machine)}, {format_size(result.settings['size'])} a side"


def facts_line(facts: dict[str, Any]) -> str:
    versions = facts["versions"]
    return (
        f"{facts['cpu']}, {facts['usable_cpus']} processors, Linux {facts['kernel']}, "
        f"kvferry {versions['kvferry']} ({facts['commit'] or 'no checkout'})"
    )


def path_text(row: Row) -> str:
    names = ("peer", "transport", "link", "submitter", "staging")
    return "/".join(row.path[name] for name in names if name in row.path)


def _cells(row: Row) -> list[str]:
    path = path_text(row)
    return [
        path if row.preset is None else f"{row.preset} ({path})",
        row.op,
        row.layout or format_size(row.block),
        str(row.batch),
        str(row.streams),
        *(f"{gbps:.2f}" for gbps in (row.gbps, row.gbps_min, row.gbps_max, row.limit_gbps)),
        f"{row.ratio:.2f}",
        f"{row.p50_us:.1f}",
        f"{row.p99_us:.1f}",
        "yes" if row.verified else "NO",
    ]
