"""Where the values of a series come from: from a snapshot, with the values of its labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..store.seen import Flow, NodeSeen, Part, Snapshot, Standing

__all__ = [
    "Series",
    "channel",
    "directory",
    "member",
    "node",
    "part",
    "spread",
    "states",
    "store",
    "traffic",
]

Row = tuple[tuple[str, ...], float]

TENANT = ("node", "tenant")
STATES = ("alive", "suspect", "leaving")


class Series(NamedTuple):
    """What it means, the names of its labels, and its values."""

    meaning: str
    labels: tuple[str, ...]
    rows: Callable[[Snapshot], Iterator[Row]]


def store(meaning: str, value: Callable[[Snapshot], float]) -> Series:
    """Of all that was seen."""
    return Series(meaning, (), lambda seen: iter([((), value(seen))]))


def directory(figure: str, meaning: str) -> Series:
    """Of the directory, if there is one."""

    def rows(seen: Snapshot) -> Iterator[Row]:
        if figure in seen.directory:
            yield (), seen.directory[figure]

    return Series(meaning, (), rows)


def states(meaning: str) -> Series:
    def rows(seen: Snapshot) -> Iterator[Row]:
        return (((state,), seen.directory[state]) for state in STATES if state in seen.directory)

    return Series(meaning, ("state",), rows)


def node(meaning: str, value: Callable[[NodeSeen], float | None]) -> Series:
    """Of each node that has such a value."""

    def rows(seen: Snapshot) -> Iterator[Row]:
        for each in seen.nodes:
            found = value(each)
            if found is not None:
                yield (each.address,), found

    return Series(meaning, ("node",), rows)


def member(meaning: str, value: Callable[[Standing], float]) -> Series:
    """Of each node as the directory sees it."""
    return node(meaning, lambda each: None if each.standing is None else value(each.standing))


def part(section: str, figure: str, meaning: str) -> Series:
    """One figure of every tenant of every node that has it."""

    def rows(seen: Snapshot) -> Iterator[Row]:
        for address, tenant, each in _parts(seen):
            found: dict[str, int] = getattr(each, section)
            if figure in found:
                yield (address, tenant), found[figure]

    return Series(meaning, TENANT, rows)


def spread(section: str, label: str, meaning: str, but: tuple[str, ...] = ()) -> Series:
    """All figures of a section but some, told apart by a label."""

    def rows(seen: Snapshot) -> Iterator[Row]:
        for address, tenant, each in _parts(seen):
            found: dict[str, int] = getattr(each, section)
            for name, value in found.items():
                if name not in but:
                    yield (address, tenant, name), value

    return Series(meaning, (*TENANT, label), rows)


def traffic(meaning: str) -> Series:
    def rows(seen: Snapshot) -> Iterator[Row]:
        for address, tenant, each in _parts(seen):
            for way, value in each.traffic.items():
                path, _, direction = way.partition(".")
                yield (address, tenant, path, direction), value

    return Series(meaning, (*TENANT, "path", "direction"), rows)


def channel(meaning: str, value: Callable[[Flow], float]) -> Series:
    def rows(seen: Snapshot) -> Iterator[Row]:
        for each in seen.nodes:
            for flow in each.channels:
                direction = "written" if flow.writes else "read"
                yield (each.address, flow.peer, flow.path, direction), value(flow)

    return Series(meaning, ("node", "peer", "path", "direction"), rows)


def _parts(seen: Snapshot) -> Iterator[tuple[str, str, Part]]:
    """Of nodes that answered: address, tenant, what it keeps for that."""
    for each in seen.nodes:
        if each.epoch:
            yield each.address, "", each.own
            for name, found in each.tenants.items():
                yield each.address, name, found
