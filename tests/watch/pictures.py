"""Snapshots of stores that do not exist."""

from __future__ import annotations

from typing import Any

from kvferry.store.directory.messages import Standing
from kvferry.store.seen import Flow, NodeSeen, Part, Snapshot

__all__ = ["HOSTILE", "flow", "node", "part", "snapshot", "standing"]

HOSTILE = '<img src=x onerror="document.title=\'taken\'">[bold]\x1b[2J\n{}"\\'


def part(hits: int = 0, absent: int = 0, **more: dict[str, int]) -> Part:
    sections: dict[str, dict[str, int]] = {
        "usage": {"capacity": 1000, "free": 250, "count": 3, "most": 10, "objects": 750},
        "reads": {"hits": hits, "absent": absent, "bytes": 10 * hits},
        "misses": {"never": absent, "present": 0},
        "traffic": {"tcp.read": 10 * hits},
        "came": {"objects": 5, "bytes": 900},
        "left": {"evicted": 2, "removed": 1},
        "left_bytes": {"evicted": 200, "removed": 100},
        "users": {"users": 1, "silent": 0},
        **more,
    }
    return Part(**sections)


def standing(address: str, epoch: int, state: str = "alive") -> Standing:
    numbers = {"capacity": 1000, "free": 250, "keys": 3, "most": 10}
    return Standing(1, epoch, address, state, "d", since=5 * 10**9, heard=10**9, **numbers)


def node(address: str = "a:1", epoch: int = 1, own: Part | None = None, **more: Any) -> NodeSeen:
    more.setdefault("standing", standing(address, epoch or 1))
    return NodeSeen(address, epoch=epoch, own=own or part(), seconds=0.01, **more)


def flow(transfers: int, bytes: int, seconds: float, **more: Any) -> Flow:
    told = {"peer": "b:1", "path": "tcp/host/none", "writes": True, "suspected": False, **more}
    return Flow(transfers=transfers, bytes=bytes, seconds=seconds, longest=seconds, **told)


def snapshot(moment: float, *nodes: NodeSeen, why: str = "") -> Snapshot:
    figures = {"alive": len(nodes), "suspect": 0, "leaving": 0, "keys": 3, "memory": 99}
    return Snapshot("a:9", 1e9 + moment, moment, nodes, figures, "http://a:80", why)
