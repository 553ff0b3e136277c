"""Who calls a service."""

from __future__ import annotations

from typing import NamedTuple

from ..path import LinkKind
from ..runtime import Access

__all__ = ["Caller"]


class Caller(NamedTuple):
    """A peer engine that proved itself, as a service sees it.

    name   its address, as it says
    epoch  names this life of it; it proved that it is the one
    pid    of its process, as the kernel of this host says; None from other hosts
    tenant whose token it holds; "": the engine's own
    rights what that token permits
    link   over which it reaches the engine's own memory; None before it asked for any
    """

    name: str
    epoch: int
    pid: int | None
    tenant: str = ""
    rights: Access = Access.WRITE
    link: LinkKind | None = None
