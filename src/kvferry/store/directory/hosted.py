"""A directory in the process of a node that was told of none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...address import TcpAddress, parse
from ...engine import Engine
from .directed import Directed
from .service import Service

__all__ = ["ANYWHERE", "hosted"]

ANYWHERE = {"0.0.0.0", "::"}  # listened at, and no address that could be told


@contextmanager
def hosted(engine: Engine, wanted: Directed, peers: Sequence[str]) -> Iterator[Directed]:
    """What a node on this engine is to be told about directories: what was wanted or, where that is
    none and it has no peers either, that it is one itself, as long as the block lasts. Others reach
    it only where the engine listens at a host and a port."""
    here = [str(each) for each in map(parse, engine.addresses) if _is_told(each)]
    if wanted.addresses or peers or not here:
        yield wanted
        return
    service = Service(engine)
    try:
        yield wanted._replace(addresses=(here[0],))
    finally:
        service.close()


def _is_told(address: object) -> bool:
    return isinstance(address, TcpAddress) and address.host not in ANYWHERE
