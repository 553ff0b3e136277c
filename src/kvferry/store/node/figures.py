"""What is seen of a node, and of its tenants: how much each has, and nothing of what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import messages as m

if TYPE_CHECKING:
    from ...engine import Flow
    from .node import Node

__all__ = ["figures_of", "looked"]

SHOWN = ("usage", "reads", "misses", "users", "left")


def looked(node: Node) -> m.Looked:
    """Those who come with a tenant's token see nothing of the engine, which is everybody's."""
    figures = node.figures() | figures_of(node.tenants)
    epoch = node.engine.epoch
    if node.tenant:
        return m.Looked(figures, epoch)
    channels = tuple(map(_moved, node.engine.flows))
    return m.Looked(figures, epoch, channels, node.directory.addresses, node.page)


def figures_of(tenants: Mapping[str, Node]) -> dict[str, dict[str, int]]:
    """A section a tenant, named "tenant NAME": all its numbers beside each other."""
    sections = {}
    for name, node in tenants.items():
        figures = node.figures()
        told = [(part, figures[part]) for part in SHOWN]
        sections[f"tenant {name}"] = {
            f"{part}.{figure}": value for part, row in told for figure, value in row.items()
        }
    return sections


def _moved(flow: Flow) -> m.Flow:
    times, stats = flow.stats.transfers, flow.stats
    return m.Flow(
        flow.peer,
        str(flow.path),
        flow.writes,
        flow.suspected,
        times.count,
        stats.bytes,
        times.total,
        times.longest,
    )
