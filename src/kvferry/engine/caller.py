"""Who calls a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..path import LinkKind
from ..runtime import Access

__all__ = ["Caller"]


def _none() -> None:
    """What there is of a process that is not of this host."""


class Caller(NamedTuple):
    """A peer engine that proved itself, as a service sees it.

    name   its address, as it says
    epoch  names this life of it; it proved that it is the one
    pid    of its process, as the kernel of this host says: 0 where the pid namespace of this
           process does not show it; None from other hosts
    tenant whose token it holds; "": the engine's own
    rights what that token permits
    link   over which it reaches the engine's own memory; None before it asked for any
    pidfd  opens a descriptor of the process that connected, the service's to close; None where the
           kernel gives none (before Linux 6.5), from other hosts, and when it is gone
    """

    name: str
    epoch: int
    pid: int | None
    tenant: str = ""
    rights: Access = Access.WRITE
    link: LinkKind | None = None
    pidfd: Callable[[], int | None] = _none
