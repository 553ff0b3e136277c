"""An engine that is its own peer: nothing is mapped, every region is here already."""

from __future__ import annotations

from ..memory import Region, RemoteRegion
from ..path import LinkKind, Path
from ..runtime import Access
from ..submit import Submitters
from .base import Driver, Facts, Link, Peer, Published
from .registered import attach_registered, publish_registered
from .stream import StreamLink

__all__ = ["LoopbackDriver"]


class LoopbackDriver(Driver):
    """The reference among links."""

    kind = LinkKind.LOOPBACK

    @staticmethod
    def refuse(ours: Facts, theirs: Facts) -> str | None:
        return None if ours.epoch == theirs.epoch else "the peer is another engine"

    def publish(self, region: Region, to: Facts, most: Access = Access.WRITE) -> Published | None:
        return publish_registered(region, most) if region.reach is None else None

    def open(self, peer: Peer, path: Path, submitters: Submitters) -> Link:
        return LoopbackLink(peer, path, submitters.make(path.submitter))


class LoopbackLink(StreamLink):
    """Remote addresses are local addresses."""

    def attach(self, published: Published) -> RemoteRegion:
        return attach_registered(published, self.peer, self.epoch, self.path)

    def detach(self, region: RemoteRegion) -> None:
        """Nothing was mapped."""
