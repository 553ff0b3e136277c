"""A comparison as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from .comparison import Comparison, VariantRow
from .keys import slots_repeat
from .sizes import format_size

__all__ = ["keys_lines", "keys_table", "variants_lines", "variants_table"]

COLUMNS = (
    "variant",
    "varies",
    "p50 us",
    "p99 us",
    "write",
    "read",
    "caller",
    "engines",
    "coproc",
    "target",
    "connect",
    "alloc",
    "register",
    "back",
    "staged",
    "verified",
)
WORDS = 2  # leading columns that are words

LEGEND = (
    "p50, p99: a write of one block of 4 KiB; write, read: GB/s, 128 blocks of 1 MiB a call; "
    "caller to target: CPU seconds per GB by who used them; connect, alloc, register: ms; back: ms "
    "from killing the target until a transfer over the same path succeeded, in brackets those that "
    "the new target took to start"
)


def variants_table(found: Comparison) -> Table:
    table = _table(*COLUMNS)
    for column in table.columns[WORDS:-1]:
        column.justify = "right"
    for row in found.variants:
        table.add_row(*_cells(row), style=None if _good(row) else "bold red")
    return table


def variants_lines(found: Comparison) -> Iterator[str]:
    """What belongs under the table: its legend, the memory, and what was refused."""
    yield LEGEND
    for row in found.variants[:1]:
        grant = row.grant
        yield (
            f"the same allocator for all: asked for {format_size(grant.asked)}, granted "
            f"{format_size(grant.granted)}, {format_size(grant.huge)} of it in huge pages"
        )
    for refused in found.refused:
        yield f"{refused.variant} ({refused.varies}): refused: {refused.reason}"


def keys_table(found: Comparison) -> Table:
    names = [row.variant for row in found.variants]
    table = _table("ms for", *(name.replace("/", "\n", 1) for name in names))
    for column in table.columns:
        column.justify = "right"
    for row in found.keys:
        table.add_row(f"{row.keys} keys", *(f"{row.ms[name]:.2f}" for name in names))
    return table


def keys_lines(found: Comparison) -> Iterator[str]:
    settings = found.settings
    yield (
        f"written in one call; a key: one slot of {settings['layout']}, "
        f"{format_size(settings['key_bytes'])}"
    )
    if slots_repeat(settings["slots"]):
        yield f"a side has {settings['slots']} slots, which repeat where more keys are moved"
    for name in found.unverified_keys:
        yield f"{name}: NOT verified"


def _table(*names: str) -> Table:
    table = Table(*names, box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        column.no_wrap = True
    return table


def _good(row: VariantRow) -> bool:
    return row.verified and row.recovery.verified


def _cells(row: VariantRow) -> list[str]:
    cpu, recovery = row.cpu, row.recovery
    return [
        row.variant,
        row.varies,
        f"{row.p50_us:.1f}",
        f"{row.p99_us:.1f}",
        f"{row.write_gbps:.2f}",
        f"{row.read_gbps:.2f}",
        *(f"{each:.3f}" for each in (cpu.caller, cpu.engines, cpu.coprocessor, cpu.target)),
        f"{row.connect_ms:.1f}",
        f"{row.allocate_ms:.1f}",
        f"{row.register_ms:.2f}",
        f"{recovery.back_ms:.0f} ({recovery.start_ms:.0f})",
        format_size(row.staged_bytes),
        "yes" if _good(row) else "NO",
    ]
