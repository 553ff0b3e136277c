"""Both processes map the same memory; a transfer is a copy between two mappings.

owner      |#### region ####|                 allocated, sealed, mapped
               | descriptor of the memory file, over the control socket
here       |#### mapping ###|                 same pages, other addresses
                                              here = mapping + (there - base)
"""

from __future__ import annotations

from ..memory import Region, RemoteRegion
from ..path import LinkKind, Path
from ..runtime import Access, Runtime
from ..submit import Submitter, Submitters
from .base import Driver, Facts, Link, Peer, Published
from .mapped import map_region, publish_mapped, region_at
from .registered import bad_region
from .stream import StreamLink

__all__ = ["FabricDriver"]

HANDLE = "memfd"  # of RegionRecord


class FabricDriver(Driver):
    """Shares the engine's own regions as handles of `runtime`."""

    kind = LinkKind.FABRIC

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @staticmethod
    def refuse(ours: Facts, theirs: Facts) -> str | None:
        if LinkKind.FABRIC not in theirs.links:
            return "the peer does not offer it"
        if theirs.links[LinkKind.FABRIC]:
            return "the peer's memory is a device library's, this engine's its host's"
        if ours.boot != theirs.boot:
            return "the peer is on another host: memory handles do not cross hosts"
        if ours.network != theirs.network:
            return "the peer is in another network namespace: its handle socket cannot be reached"
        return None

    def publish(self, region: Region, to: Facts, most: Access = Access.WRITE) -> Published | None:
        if region.allocation is None:
            return None
        handle = self._runtime.export(region.allocation, region.shared)
        if handle.access is Access.WRITE and most is Access.READ:
            handle = self._runtime.narrow(handle)
        return publish_mapped(region, handle)

    def open(self, peer: Peer, path: Path, submitters: Submitters) -> Link:
        return FabricLink(peer, path, submitters.make(path.submitter), self._runtime)


class FabricLink(StreamLink):
    """Maps the peer's regions."""

    def __init__(self, peer: Peer, path: Path, submitter: Submitter, runtime: Runtime) -> None:
        super().__init__(peer, path, submitter)
        self._runtime = runtime

    def attach(self, published: Published) -> RemoteRegion:
        record = published.record
        if len(published.fds) != 1:
            published.discard()
            raise bad_region(record, self.peer, f"comes with {len(published.fds)} descriptors")
        if record.handle != HANDLE:
            published.discard()
            raise bad_region(record, self.peer, f"comes as {record.handle!r}")
        mapping = map_region(self._runtime, record, published.fds[0], self.peer)
        here = mapping.address + record.offset
        return region_at(here, record, self.peer, self.epoch, self.path, mapping)

    def detach(self, region: RemoteRegion) -> None:
        if region.mapping is not None:
            region.mapping.close()
