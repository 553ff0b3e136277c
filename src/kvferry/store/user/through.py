"""A home by an address at which there is a node, or a directory that knows of nodes."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress

from ...engine import Engine
from ...errors import Error, PeerError, UsageError
from ..directory import messages as d
from ..directory.line import Line
from .home import Home
from .namespace import PLAIN, Namespace
from .node_at import join

__all__ = ["home_at", "home_in_life"]

TIMEOUT = 1.0


def home_at(engine: Engine, address: str, path: str = "auto", namespace: Namespace = PLAIN) -> Home:
    """Become a user of the node there or, of a directory, of the node that it places the user at.
    Blocks. Raises what joining raises."""
    try:
        return join(engine, address, path, namespace)
    except UsageError as error:
        if error.cause != "no_store":
            raise
        placed = _placed(engine, address)
        if placed is None:
            raise
    return join(engine, placed, path, namespace)


def home_in_life(joining: Callable[[], Home], epoch: int) -> Home:
    """What `joining` gives, if it is this life of the node. Blocks. Raises PeerError (node_gone)
    for another one: what the earlier had may still lie on its disk, and be void."""
    home = joining()
    if home.joined.epoch != epoch:
        with suppress(Error):
            home.leave()
        raise PeerError("the node has begun again", cause="node_gone", peer=home.name)
    return home


def _placed(engine: Engine, address: str) -> str | None:
    """By free bytes, as if a key were put there. None: there is no node. Raises PeerError."""
    ask = d.Choose(0, 1, secrets.token_bytes(16), bytes(8))
    placed = Line(engine, (address,), TIMEOUT).ask(ask, d.Placed)
    if not isinstance(placed, d.Placed) or not placed.nodes:
        return None
    return next(iter(placed.nodes.values())).address
