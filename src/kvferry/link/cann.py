"""Memory of a device library that both processes map; its own streams copy.

owner      |#### region ####|                 allocated by the library, exported, told as bytes
               | handle, for a process that was let in
here       |#### mapping ####|                addresses that devices reach, and no processor
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec

from .._core import CopyEngines, Descriptors, Done
from ..errors import Error, PathRefused
from ..memory import Region, RegionRecord, RemoteRegion
from ..path import LinkKind, Path, SubmitterKind
from ..runtime import Access
from ..runtime.cann import CannRuntime, CannStreams, translate
from ..submit import Slot, SlotPool, Submitters
from .base import Driver, Facts, Link, Peer, Published
from .mapped import map_region, publish_mapped, region_at
from .pooled import PooledLink
from .registered import bad_region, check_record

__all__ = ["CannDriver"]

# How many streams are busy at once, a thread for each.
WORKERS = 8
WIDE_BYTES = 1 << 20  # below, one stream moves a batch as fast as several

NO_COPROCESSOR = "a coprocessor of the device needs kernels of the vendor's (AICPU)"


class CannFacts(msgspec.Struct, frozen=True):
    """What a peer tells.

    runtime  whose memory it shares
    sharing  which kind of handles
    crosses  1 where those reach other servers
    tgid     by which an exporter lets it in; 0: not known
    """

    runtime: Literal["cann"]
    sharing: str
    crosses: int
    tgid: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]


class CannDriver(Driver):
    """Shares memory of `runtime`, which outlives it, for the engine of this epoch.

    engines  native threads that submit to streams and wait for them
    """

    kind = LinkKind.FABRIC

    def __init__(self, runtime: CannRuntime, engines: CopyEngines, epoch: int) -> None:
        self._runtime = runtime
        self._engines = engines
        self._epoch = epoch
        self._streams = CannStreams(runtime.device, engines, runtime.aliases)
        self._told = msgspec.structs.asdict(_facts(runtime))

    def facts(self) -> dict[str, int | str]:
        return dict(self._told)

    @staticmethod
    def refuse(ours: Facts, theirs: Facts) -> str | None:
        if LinkKind.FABRIC not in theirs.links:
            return "the peer does not offer it"
        us, them = _heard(ours), _heard(theirs)
        if us is None or them is None:
            return "the peer's memory is its host's, this engine's a device library's"
        if us.sharing != them.sharing:
            return f"the peer shares by {them.sharing}, this engine by {us.sharing}"
        if ours.boot != theirs.boot and not (us.crosses and them.crosses):
            return f"the peer is on another host: handles of {us.sharing} do not get there"
        return None

    def publish(self, region: Region, to: Facts, most: Access = Access.WRITE) -> Published | None:
        if region.allocation is None or most is Access.READ:  # a handle is to read and to write
            return None
        told = _heard(to)
        importer = None if told is None else told.tgid or None
        handle = self._runtime.export(region.allocation, region.shared, importer)
        return publish_mapped(region, handle)

    def open(self, peer: Peer, path: Path, submitters: Submitters) -> Link:
        if path.submitter is SubmitterKind.COPROCESSOR:
            raise _refused(peer, path, NO_COPROCESSOR)
        code = self._engines.grow(WORKERS)
        if code:
            raise _refused(peer, path, f"starting threads for streams: {os.strerror(code)}")
        slots = submitters.slots.another(lambda _deadline: self._streams.open())
        try:
            return CannLink(peer, path, submitters, self._engines, slots, self._runtime)
        except Error as error:
            raise _refused(peer, path, f"no stream: {error}") from error

    def close(self) -> None:
        self._streams.close()


class CannLink(PooledLink):
    """Maps the peer's regions for the device; what this very process owns is mapped already."""

    def __init__(
        self,
        peer: Peer,
        path: Path,
        submitters: Submitters,
        engines: CopyEngines,
        slots: SlotPool,
        runtime: CannRuntime,
    ) -> None:
        super().__init__(
            peer,
            path,
            engines,
            slots,
            streams=submitters.streams,
            wide=WIDE_BYTES,
            inline_below=submitters.inline_below,
        )
        self._runtime = runtime
        self._ours = peer.pid == os.getpid()
        # The first stream shows whether the device works.
        self._slots.give(self._slots.take(1, peer.by))

    def submit(
        self,
        op: int,
        d: Descriptors,
        done: Done,
        deadline: int | None = None,
        patient: bool = False,
    ) -> Slot | None:
        if self.path.submitter is SubmitterKind.INLINE and d.bytes:
            return self.copy_inline(op, d, done, deadline, patient)
        return super().submit(op, d, done, deadline, patient)

    def attach(self, published: Published) -> RemoteRegion:
        record = published.record
        published.discard()
        if published.fds:
            raise bad_region(record, self.peer, f"comes with {len(published.fds)} descriptors")
        check_record(record, self.peer)
        here = self._here(record) if self._ours else None
        if here is not None:
            return region_at(here, record, self.peer, self.epoch, self.path, None)
        mapping = map_region(self._runtime, record, None, self.peer)
        here = mapping.address + record.offset
        return region_at(here, record, self.peer, self.epoch, self.path, mapping)

    def detach(self, region: RemoteRegion) -> None:
        if region.mapping is not None:
            region.mapping.close()

    def _here(self, record: RegionRecord) -> int | None:
        """Where the device has it already; None: it belongs to another device's runtime."""
        for span in self._runtime.aliases.overlapping(record.base, record.length):
            if span.base <= record.base and record.base + record.length <= span.base + span.length:
                return span.here + record.base - span.base
        return None

    def why(self, done: Done) -> Error | None:
        return translate("a copy on a stream", done.code, None) if done.code else None


def _facts(runtime: CannRuntime) -> CannFacts:
    who = runtime.whoami()
    return CannFacts(
        runtime="cann",
        sharing=runtime.kind,
        crosses=int(runtime.caps.cross_host),
        tgid=who.tgid or 0,
    )


def _heard(facts: Facts) -> CannFacts | None:
    try:
        return msgspec.convert(facts.links.get(LinkKind.FABRIC), CannFacts)
    except msgspec.ValidationError:
        return None


def _refused(peer: Peer, path: Path, reason: str) -> PathRefused:
    return PathRefused(reason, peer=peer.name, rejected={str(path): reason})
