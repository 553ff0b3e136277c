"""What a node's own users see of its tenants: how much each has, and nothing of what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import Node

__all__ = ["figures_of"]

SHOWN = ("usage", "reads", "users")


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
