"""Connects to a peer, reads a few blocks of what it offers, and says how they came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..batch import Batch
from ..engine import Channel, Engine, Report
from ..memory import RemoteRegion

__all__ = ["Explained", "Sample", "explain"]

BLOCK = 64 << 10
BLOCKS = 4


class Sample(NamedTuple):
    """A region of the peer and what reading some of it was like."""

    region: RemoteRegion
    report: Report


class Explained(NamedTuple):
    """What was found of one peer.

    rejected  every path that is not taken, and why
    samples   one for each kind of memory that the peer offers, own and registered
    """

    channel: Channel
    rejected: dict[str, str]
    samples: list[Sample]


def explain(engine: Engine, address: str, path: str, timeout: float) -> Explained:
    """Blocks for about `timeout` seconds at most. Reads only: the peer's memory stays as it is.

    Raises PathRefused with every reason, PeerError, RightsError, Timeout.
    """
    channel = engine.connect(address, path=path, timeout=timeout)
    samples = [Sample(region, _read(channel, region, timeout)) for region in _kinds(channel)]
    return Explained(channel, channel.rejected, samples)


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
