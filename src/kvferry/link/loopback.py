"""An engine that is its own peer: nothing is mapped, every region is here already."""

from __future__ import annotations

from .._core import Span
from ..memory import Region, RegionRecord, RemoteRegion
from ..path import LinkKind
from ..runtime import Access
from ..submit import Submitter
from .base import Driver, Facts, Link, Published
from .stream import StreamLink

__all__ = ["LoopbackDriver"]


class LoopbackDriver(Driver):
    """The reference among links."""

    kind = LinkKind.LOOPBACK

    @staticmethod
    def refuse(ours: Facts, theirs: Facts) -> str | None:
        return None if ours.epoch == theirs.epoch else "the peer is another engine"

    def publish(self, region: Region) -> Published | None:
        record = RegionRecord(
            serial=region.serial,
            name=region.name,
            base=region.address,
            length=region.length,
            size=region.length,
            page=1,
            readonly=region.readonly or region.shared is Access.READ,
            handle="address",
        )
        return Published(record, [])

    def open(self, peer: str, epoch: int, submitter: Submitter) -> Link:
        return LoopbackLink(peer, epoch, submitter)


class LoopbackLink(StreamLink):
    """Remote addresses are local addresses."""

    def attach(self, published: Published) -> RemoteRegion:
        record = published.record
        span = Span(record.base, record.length, record.base, not record.readonly)
        return RemoteRegion(record, self.peer, self.epoch, span, None)

    def detach(self, region: RemoteRegion) -> None:
        """Nothing was mapped."""
