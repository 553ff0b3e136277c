"""What submitting to ACL costs, as people read it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from .acl_costs import AclRow

__all__ = ["LEGEND", "acl_table"]

LEGEND = (
    "medians: transfer: from the check of a batch to its end, over functions in the place of ACL's "
    "that return at once; bare: a loop of the same calls; overhead: the difference. No card is "
    "needed, and nothing is said about one. inline: the caller makes the calls; host: copy engines "
    "do, and the caller what they have not begun; engines: copy engines alone"
)

COLUMNS = (
    "by",
    "streams",
    "descriptors",
    "transfer us",
    "bare us",
    "overhead us",
    "ns a descriptor",
)


def acl_table(rows: Iterable[AclRow]) -> Table:
    table = Table(*COLUMNS, box=None, pad_edge=False, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(
            row.by,
            str(row.streams),
            str(row.descriptors),
            f"{row.transfer_ns / 1e3:.2f}",
            f"{row.bare_ns / 1e3:.3f}",
            f"{row.overhead_ns / 1e3:.2f}",
            f"{row.descriptor_ns:.0f}",
        )
    return table
