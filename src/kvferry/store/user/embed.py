"""A node within the user's own process: how it is made, and what may keep it from being there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...engine import Engine
from ...errors import DeviceError, NoMemory, PeerError, RightsError, Unsupported, UsageError
from .addresses import bytes_in
from .home import Home
from .namespace import Namespace
from .near import Embedded

__all__ = ["embed", "mistake"]

# Of the caller's doing, or of this machine's.
MISTAKES = (UsageError, RightsError, NoMemory, Unsupported, DeviceError)


def embed(
    engine: Engine,
    namespace: Namespace,
    size: int | str,
    ssd: str | Path | None,
    ssd_size: int | str | None,
    **wanted: Any,
) -> Home:
    """The home at a new node, which `wanted` goes to."""
    from ..node import Node, Service  # who only uses nodes elsewhere does not need it
    from ..ssd import ssd_of

    disk = ssd_of(ssd, None if ssd_size is None else bytes_in(ssd_size))
    node = Node(engine, size=bytes_in(size), ssd=disk, **wanted)
    return Embedded(node, Service(node), namespace)


def mistake(gone: PeerError) -> BaseException:
    """What keeps a node from being there, where the node itself is not it."""
    why = gone.__cause__
    return why if isinstance(why, MISTAKES) else gone
