"""A run as people read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table

from ..sizes import format_size
from .result import Row, StoreResult, Want

__all__ = ["LEGEND", "lines", "rows_table"]

LEGEND = (
    "embedded: the process that is the node; mapped: another one of its host; far: one that "
    "reaches it over tcp (loopback) alone. M/s: million keys a second. of limit: GB/s to a bare "
    "copy loop over as many bytes, for far to the tcp link alone, in turn with it. of embedded: "
    "its speed to the embedded one's, by p50 of calls with one key (1 MiB: GB/s), else by what is "
    "wanted. CPU, node: processor time of a call, in the user and, where that is another process, "
    "in the node. full: others leave for every object that comes. wanted: times at most, all else "
    "at least"
)

COLUMNS = (
    "call",
    "by",
    "p50 us",
    "p99 us",
    "M/s",
    "GB/s",
    "of limit",
    "of embedded",
    "CPU us",
    "node us",
    "wanted",
    "verified",
)
NUMBERS = slice(2, 10)

LONG = 1000  # us

NAMES = {
    "p50_us": "p50 {} us",
    "mkeys": "{} M/s",
    "gbps": "{} GB/s",
    "of_limit": "{} of limit",
    "of_link": "{} of limit",
    "of_embedded": "{} of embedded",
}


def rows_table(rows: Iterable[Row]) -> Table:
    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[NUMBERS]:
        column.justify = "right"
    for row in rows:
        table.add_row(*_cells(row), style=None if row.verified else "bold red")
    return table


def lines(result: StoreResult) -> Iterator[str]:
    """What stands below the table."""
    memory = result.memory
    if memory is not None:
        met = _met(memory.wanted) if memory.verified else "NOT VERIFIED"
        yield (
            f"memory: an object costs {memory.object_bytes:.0f} bytes in the node beside its "
            f"value, index and policy included, at {memory.objects:,} objects "
            f"(wanted: at most {memory.wanted.bound:.0f}: {met})"
        )
    used = ", ".join(f"{who} {seconds:.1f}" for who, seconds in result.cpu_s.items())
    yield f"processor seconds of each process: {used}; import {result.import_s:.2f} s"
    for name, why in result.absent.items():
        yield f"no rows of {name}: {why}"


def _cells(row: Row) -> list[str]:
    ratio = row.of_limit if row.of_limit is not None else row.of_link
    count = "" if row.batch == 1 else f"{row.batch} x "
    return [
        f"{row.op} {count}{format_size(row.block)}{', full' if row.full else ''}",
        row.who,
        _time(row.p50_us),
        _time(row.p99_us),
        f"{row.mkeys:.3f}",
        _number(row.gbps),
        _number(ratio),
        _number(row.of_embedded),
        *(_time(row.cpu_us[who]) if who in row.cpu_us else "" for who in ("user", "node")),
        ", ".join(map(_wanted, row.wanted)),
        "yes" if row.verified else "NO",
    ]


def _time(us: float) -> str:
    return f"{us:.1f}" if us < LONG else f"{us:.0f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _wanted(want: Want) -> str:
    return f"{NAMES[want.figure].format(f'{want.bound:g}')}: {_met(want)}"


def _met(want: Want) -> str:
    return "yes" if want.met else "no"
