"""A picture of a store, made of two snapshots of it. Pure."""

from __future__ import annotations

from ..store.answers import Cause
from ..store.seen import Flow, NodeSeen, Snapshot
from . import rates
from .picture import CauseRow, ChannelRow, NodeRow, PathRow, TenantRow, TierRow, Totals, View
from .rates import Figure, Span

__all__ = ["view_of"]

NODES, CHANNELS = 200, 8  # rows at most
CAUSES = [cause.name.lower() for cause in Cause if cause is not Cause.PRESENT]


def view_of(before: Snapshot | None, after: Snapshot, now: float) -> View:
    """before  None: nothing was seen yet
    now     seconds of the asker's monotonic clock
    """
    span = rates.both(before, after)
    nodes = list(after.nodes)
    rows = sorted((_node(span, each) for each in nodes), key=lambda row: (not row.why, row.address))
    return View(
        source=after.source,
        at=after.at,
        age=max(now - after.moment, 0.0),
        span=span.seconds,
        why=after.why,
        totals=_totals(span, nodes),
        nodes=rows[:NODES],
        hidden=max(len(rows) - NODES, 0),
        tiers=_tiers(span, nodes),
        misses=_causes(span, nodes, "misses"),
        left=_causes(span, nodes, "left"),
        paths=_paths(span, nodes),
        channels=_channels(span, nodes),
        tenants=_tenants(span, nodes),
        directory=after.directory,
    )


def _node(span: Span, node: NodeSeen) -> NodeRow:
    standing = node.standing
    state = "here" if standing is None else standing.state
    whose = [node]
    hits, absent = _reads(span, whose)
    return NodeRow(
        address=node.address,
        state="silent" if node.why and state in ("here", "alive") else state,
        why=node.why,
        domain="" if standing is None else standing.domain,
        up=None if standing is None else standing.since / 1e9,
        answer=node.seconds,
        size=_sum(span, whose, "usage", "capacity"),
        used=_used(span, whose),
        objects=_sum(span, whose, "usage", "count"),
        ssd_size=_sum(span, whose, "ssd", "size"),
        ssd_used=_sum(span, whose, "ssd", "bytes"),
        users=_sum(span, whose, "users", "users"),
        hit_rate=_hit_rate(hits, absent),
        reads=hits.rate,
        absent=absent.rate,
        read=rates.total(span, whose, "reads", "bytes").rate,
        came=rates.total(span, whose, "came", "bytes").rate,
        evicted=rates.total(span, whose, "left", "evicted").rate,
    )


def _totals(span: Span, nodes: list[NodeSeen]) -> Totals:
    hits, absent = _reads(span, nodes)
    return Totals(
        nodes=len(nodes),
        answering=sum(not node.why for node in nodes),
        size=_sum(span, nodes, "usage", "capacity"),
        used=_used(span, nodes),
        objects=_sum(span, nodes, "usage", "count"),
        users=_sum(span, nodes, "users", "users"),
        hit_rate=_hit_rate(hits, absent),
        reads=hits.rate,
        absent=absent.rate,
        read=rates.total(span, nodes, "reads", "bytes").rate,
        came=rates.total(span, nodes, "came", "bytes").rate,
        evicted=rates.total(span, nodes, "left", "evicted").rate,
    )


def _tiers(span: Span, nodes: list[NodeSeen]) -> list[TierRow]:
    memory = TierRow(
        "memory",
        _sum(span, nodes, "usage", "capacity"),
        _used(span, nodes),
        _sum(span, nodes, "usage", "count"),
        rates.total(span, nodes, "came", "objects").rate,
        rates.total(span, nodes, "reads", "hits").rate,
        sum(rates.total(span, nodes, "left", cause).rate for cause in CAUSES),
    )
    if not any(part.ssd for node in nodes for part in (node.own, *node.tenants.values())):
        return [memory]
    ssd = TierRow(
        "ssd",
        _sum(span, nodes, "ssd", "size"),
        _sum(span, nodes, "ssd", "bytes"),
        _sum(span, nodes, "ssd", "objects"),
        rates.total(span, nodes, "ssd", "written").rate,
        rates.total(span, nodes, "ssd", "hits").rate,
        rates.total(span, nodes, "ssd", "evicted").rate,
    )
    return [memory, ssd]


def _causes(span: Span, nodes: list[NodeSeen], section: str) -> list[CauseRow]:
    """Such as there were, the most frequent of the span first."""
    found = [(cause, rates.total(span, nodes, section, cause)) for cause in CAUSES]
    whole = sum(each.sum for _, each in found)
    rows = [CauseRow(cause, *each, each.sum / whole) for cause, each in found if each.sum]
    return sorted(rows, key=lambda row: (-row.rate, -row.sum))


def _paths(span: Span, nodes: list[NodeSeen]) -> list[PathRow]:
    sums: dict[tuple[str, str, str], Figure] = {}
    for node in nodes:
        for tenant, part in (("", node.own), *node.tenants.items()):
            for way in part.traffic:
                path, _, direction = way.partition(".")
                more = rates.figure(span, node, "traffic", way, tenant)
                key = "users", path, direction
                sums[key] = sums.get(key, Figure()).plus(more)
        for flow, past in rates.channels(span, node):
            more = Figure(flow.bytes, rates.speed(span, node, flow, past))
            key = "nodes", flow.path, _direction(flow)
            sums[key] = sums.get(key, Figure()).plus(more)
    rows = [PathRow(*key, *each) for key, each in sums.items()]
    return sorted(rows, key=lambda row: (-row.rate, -row.bytes))


def _channels(span: Span, nodes: list[NodeSeen]) -> list[ChannelRow]:
    """The slowest first."""
    rows = [
        _channel(node.address, flow, past)
        for node in nodes
        for flow, past in rates.channels(span, node)
    ]
    return sorted(rows, key=lambda row: (not row.suspected, -row.mean))[:CHANNELS]


def _channel(node: str, flow: Flow, past: Flow | None) -> ChannelRow:
    transfers, bytes, seconds = flow.transfers, flow.bytes, flow.seconds
    if past is not None and past.transfers < flow.transfers:
        transfers, bytes = transfers - past.transfers, bytes - past.bytes
        seconds -= past.seconds
    return ChannelRow(
        node=node,
        peer=flow.peer,
        path=flow.path,
        direction=_direction(flow),
        transfers=flow.transfers,
        mean=seconds / transfers if transfers else 0.0,
        longest=flow.longest,
        speed=bytes / seconds if seconds > 0 else 0.0,
        suspected=flow.suspected,
    )


def _tenants(span: Span, nodes: list[NodeSeen]) -> list[TenantRow]:
    """The nodes' own first, which has no name."""
    names = dict.fromkeys(["", *sorted({name for node in nodes for name in node.tenants})])
    return [_tenant(span, name, _with(nodes, name)) for name in names if _with(nodes, name)]


def _with(nodes: list[NodeSeen], name: str) -> list[NodeSeen]:
    return [node for node in nodes if node.epoch and (not name or name in node.tenants)]


def _tenant(span: Span, name: str, nodes: list[NodeSeen]) -> TenantRow:
    def of(section: str, figure: str) -> Figure:
        found = Figure()
        for node in nodes:
            found = found.plus(rates.figure(span, node, section, figure, name))
        return found

    hits, absent = of("reads", "hits"), of("reads", "absent")
    return TenantRow(
        name=name,
        nodes=len(nodes),
        quota=of("usage", "capacity").sum,
        used=max(of("usage", "capacity").sum - of("usage", "free").sum, 0),
        objects=of("usage", "count").sum,
        most=of("usage", "most").sum,
        users=of("users", "users").sum,
        hit_rate=_hit_rate(hits, absent),
        reads=hits.rate,
        evicted=of("left", "evicted").rate,
    )


def _reads(span: Span, nodes: list[NodeSeen]) -> tuple[Figure, Figure]:
    names = "hits", "absent"
    hits, absent = (rates.total(span, nodes, "reads", name) for name in names)
    return hits, absent


def _hit_rate(hits: Figure, absent: Figure) -> float | None:
    lately = rates.share(hits.rate, absent.rate)
    return rates.share(hits.sum, absent.sum) if lately is None else lately


def _sum(span: Span, nodes: list[NodeSeen], section: str, name: str) -> int:
    return rates.total(span, nodes, section, name).sum


def _used(span: Span, nodes: list[NodeSeen]) -> int:
    free = _sum(span, nodes, "usage", "free")  # which a node may say is more than all
    return max(_sum(span, nodes, "usage", "capacity") - free, 0)


def _direction(flow: Flow) -> str:
    return "written" if flow.writes else "read"
