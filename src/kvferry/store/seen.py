"""What is seen of a store from outside: values, as they were told."""

from __future__ import annotations

import msgspec

from .directory.messages import Standing
from .messages import Flow, Looked

__all__ = ["Flow", "NodeSeen", "Part", "Snapshot", "Standing", "parts_of"]

TENANT = "tenant "  # begins the name of a section about one


class Part(msgspec.Struct, frozen=True):
    """What a node keeps for one tenant: figures by name, bytes unless the name says otherwise, all
    since the node began but `usage`, `users` and what the disk has.

    usage       of memory: capacity, free, objects, ...; `count` objects, `most` at most
    reads       hits and absent are keys
    misses      keys, by cause; a sample where there are very many
    traffic     bytes of users' reads and writes by way, "tcp.read"
    came        objects and bytes that came to memory
    left        objects that left it by cause, and left_bytes
    users       how many there are
    ssd         the same of the disk; empty: there is none
    """

    usage: dict[str, int] = {}
    reads: dict[str, int] = {}
    misses: dict[str, int] = {}
    traffic: dict[str, int] = {}
    came: dict[str, int] = {}
    left: dict[str, int] = {}
    left_bytes: dict[str, int] = {}
    users: dict[str, int] = {}
    ssd: dict[str, int] = {}


class NodeSeen(msgspec.Struct, frozen=True):
    """One node.

    standing  as the directory sees it; None: no directory told of it
    why       it did not answer; "": it did
    seconds   it took to answer
    epoch     of this life of it; 0: it did not answer
    tenants   by name: those that it keeps something for beside `own`
    """

    address: str
    standing: Standing | None = None
    why: str = ""
    seconds: float = 0.0
    epoch: int = 0
    own: Part = Part()
    tenants: dict[str, Part] = {}
    channels: tuple[Flow, ...] = ()


class Snapshot(msgspec.Struct, frozen=True):
    """A store at one moment.

    source     the address that was asked first
    at         seconds since 1970
    moment     seconds of the asker's monotonic clock
    directory  figures of the directory; empty: there is none
    page       where figures are shown by HTTP; "": nowhere
    why        nobody could be asked; "": all went well
    """

    source: str
    at: float
    moment: float
    nodes: tuple[NodeSeen, ...] = ()
    directory: dict[str, int] = {}
    page: str = ""
    why: str = ""


def parts_of(looked: Looked) -> tuple[Part, dict[str, Part]]:
    """What a node keeps for whoever asked, and for others, by name."""
    own, tenants = dict[str, dict[str, int]](), dict[str, Part]()
    for name, section in looked.figures.items():
        if name.startswith(TENANT):
            tenants[name.removeprefix(TENANT)] = _part(_sections(section))
        else:
            own[name] = section
    return _part(own), tenants


def _sections(beside: dict[str, int]) -> dict[str, dict[str, int]]:
    """Of numbers that stand beside each other, "usage.free"."""
    sections: dict[str, dict[str, int]] = {}
    for name, number in beside.items():
        section, _, figure = name.partition(".")
        sections.setdefault(section, {})[figure] = number
    return sections


def _part(sections: dict[str, dict[str, int]]) -> Part:
    """Nothing is less than nothing, whatever a node says."""
    known = {name: sections.get(name, {}) for name in Part.__struct_fields__}
    return Part(
        **{
            name: {figure: max(number, 0) for figure, number in section.items()}
            for name, section in known.items()
        }
    )
