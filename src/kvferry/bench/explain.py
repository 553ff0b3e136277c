"""Connects to a peer, reads a few blocks of what it offers, and says how they came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..batch import Batch
from ..engine import Channel, Engine, Report
from ..errors import Error
from ..memory import RemoteRegion

__all__ = ["Explained", "Sample", "explain"]

BLOCK = 64 << 10
BLOCKS = 4

POOL = "store.pool"


class Sample(NamedTuple):
    """A region of the peer and what reading some of it was like."""

    region: RemoteRegion
    report: Report


class Explained(NamedTuple):
    """What was found of one peer.

    rejected  every path that is not taken, and why
    samples   one for each kind of memory that the peer offers, own and registered
    store     over which its store's bytes would come, and why so, or why not; None: it has none
    """

    channel: Channel
    rejected: dict[str, str]
    samples: list[Sample]
    store: str | None


def explain(engine: Engine, address: str, path: str, timeout: float) -> Explained:
    """Blocks for about `timeout` seconds at most, some more where the peer is a store's node, which
    is joined and left again. Reads only: the peer's memory stays as it is.

    Raises PathRefused with every reason, PeerError, RightsError, Timeout.
    """
    channel = engine.connect(address, path=path, timeout=timeout)
    samples = [Sample(region, _read(channel, region, timeout)) for region in _kinds(channel)]
    store = _as_user(engine, address, path) if POOL in channel.regions else None
    return Explained(channel, channel.rejected, samples, store)


def _as_user(engine: Engine, address: str, path: str) -> str:
    """A channel tells only how regions are reached: users are asked for more, such as a process
    whose end the node would notice."""
    from ..store.user.node_at import join

    try:
        home = join(engine, address, path)
        home.leave()
    except Error as error:
        return f"refused: {error}"
    return f"{home.path}: {home.unmapped}" if home.unmapped else str(home.path)


def _kinds(channel: Channel) -> Iterator[RemoteRegion]:
    for own in (True, False):
        yield from [region for region in channel.regions.values() if region.own is own][:1]


def _read(channel: Channel, region: RemoteRegion, timeout: float) -> Report:
    """A few blocks, spread over the region."""
    block = min(BLOCK, region.length)
    count = min(BLOCKS, region.length // block)
    here = bytearray(block * count)
    there = [index * (region.length // count // block) for index in range(count)]
    return channel.read(Batch.blocks(here, range(count), region, there, block), timeout)
