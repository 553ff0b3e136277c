"""What happened between two snapshots. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..store.seen import Flow, NodeSeen, Part, Snapshot

__all__ = ["Figure", "Span", "both", "channels", "figure", "share", "speed", "total"]


class Span(NamedTuple):
    """seconds  from one snapshot to the other; 0: there is only one"""

    before: dict[int, NodeSeen]
    seconds: float


class Figure(NamedTuple):
    """A sum, and how much of it came in each second of the span."""

    sum: int = 0
    rate: float = 0.0

    def plus(self, other: Figure) -> Figure:
        return Figure(self.sum + other.sum, self.rate + other.rate)


def both(before: Snapshot | None, after: Snapshot) -> Span:
    """Nodes are told apart by their lives: who began anew counts from 0, and has no rates yet."""
    if before is None or after.moment <= before.moment:
        return Span({}, 0.0)
    return Span(
        {node.epoch: node for node in before.nodes if node.epoch}, after.moment - before.moment
    )


def figure(span: Span, node: NodeSeen, section: str, name: str, tenant: str = "") -> Figure:
    """Of a node and one of its tenants; "" is its own."""
    here = _figure(node, section, name, tenant)
    past = span.before.get(node.epoch)
    if past is None or not here:
        return Figure(here)
    return Figure(here, max(here - _figure(past, section, name, tenant), 0) / span.seconds)


def total(span: Span, nodes: list[NodeSeen], section: str, name: str) -> Figure:
    """Of all nodes, and of all that they keep something for."""
    found = Figure()
    for node in nodes:
        for tenant in ("", *node.tenants):
            found = found.plus(figure(span, node, section, name, tenant))
    return found


def share(part: float, rest: float) -> float | None:
    """Of both together; None: there is nothing."""
    return part / (part + rest) if part + rest > 0 else None


def channels(span: Span, node: NodeSeen) -> Iterator[tuple[Flow, Flow | None]]:
    """Those of a node now, each as it was before."""
    past = span.before.get(node.epoch)
    known = {} if past is None else {_name(each): each for each in past.channels}
    for flow in node.channels:
        before = known.get(_name(flow))
        again = before is not None and before.transfers > flow.transfers  # another one by now
        yield flow, None if again else before


def speed(span: Span, node: NodeSeen, flow: Flow, past: Flow | None) -> float:
    """Bytes a second, over the whole span."""
    if node.epoch not in span.before:
        return 0.0
    return (flow.bytes - (0 if past is None else past.bytes)) / span.seconds


def _name(flow: Flow) -> tuple[str, str, bool]:
    return flow.peer, flow.path, flow.writes


def _figure(node: NodeSeen, section: str, name: str, tenant: str) -> int:
    part = node.tenants.get(tenant, Part()) if tenant else node.own
    found: dict[str, int] = getattr(part, section)
    return found.get(name, 0)
