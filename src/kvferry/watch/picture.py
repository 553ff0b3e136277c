"""A picture of a store: what the terminal and the page show."""

from __future__ import annotations

import msgspec

__all__ = [
    "CauseRow",
    "ChannelRow",
    "NodeRow",
    "PathRow",
    "TenantRow",
    "TierRow",
    "Totals",
    "View",
]


class NodeRow(msgspec.Struct, frozen=True):
    """state   of the directory, "here" without one, or "silent": it does not answer, and why
    up         seconds since this life of it began
    hit_rate   of the span if anything was asked for in it, else of all time; None: nothing ever
    reads, absent, evicted  keys a second
    read, came  bytes a second
    """

    address: str
    state: str
    why: str
    domain: str
    up: float | None
    answer: float
    size: int
    used: int
    objects: int
    ssd_size: int
    ssd_used: int
    users: int
    hit_rate: float | None
    reads: float
    absent: float
    read: float
    came: float
    evicted: float


class TierRow(msgspec.Struct, frozen=True):
    """Bytes; objects that came, were hit and left, a second."""

    tier: str
    size: int
    used: int
    objects: int
    came: float
    hits: float
    left: float


class CauseRow(msgspec.Struct, frozen=True):
    """Keys that were missed, or objects that left: in all, a second, and of all causes."""

    cause: str
    sum: int
    rate: float
    share: float


class PathRow(msgspec.Struct, frozen=True):
    """who: users, or nodes among each other. Bytes in all, and a second."""

    who: str
    path: str
    direction: str
    bytes: int
    rate: float


class ChannelRow(msgspec.Struct, frozen=True):
    """mean     seconds a transfer, of the span if there were any in it
    longest    of all
    speed      bytes a second while something moved
    """

    node: str
    peer: str
    path: str
    direction: str
    transfers: int
    mean: float
    longest: float
    speed: float
    suspected: bool


class TenantRow(msgspec.Struct, frozen=True):
    """quota: bytes that its pools have, all together."""

    name: str
    nodes: int
    quota: int
    used: int
    objects: int
    most: int
    users: int
    hit_rate: float | None
    reads: float
    evicted: float


class Totals(msgspec.Struct, frozen=True):
    nodes: int
    answering: int
    size: int
    used: int
    objects: int
    users: int
    hit_rate: float | None
    reads: float
    absent: float
    read: float
    came: float
    evicted: float


class View(msgspec.Struct, frozen=True):
    """span    seconds that rates are of; 0: there are none yet
    age     seconds since it was looked
    hidden  nodes that have no row
    """

    source: str
    at: float
    age: float
    span: float
    why: str
    totals: Totals
    nodes: list[NodeRow]
    hidden: int
    tiers: list[TierRow]
    misses: list[CauseRow]
    left: list[CauseRow]
    paths: list[PathRow]
    channels: list[ChannelRow]
    tenants: list[TenantRow]
    directory: dict[str, int]
