"""What links share that map a peer's regions: how a region is told, and how it is mapped here."""

from __future__ import annotations

from contextlib import ExitStack

from .._core import Span
from ..memory import NO_TENANT, Region, RegionRecord, RemoteRegion
from ..path import Path
from ..runtime import Access, Mapping, Runtime, ShareHandle
from .base import Published
from .registered import bad_region, check_record, kind_of

__all__ = ["map_region", "publish_mapped", "region_at"]


def publish_mapped(region: Region, handle: ShareHandle) -> Published:
    """A region, with the handle of what it lies in."""
    record = RegionRecord(
        serial=region.serial,
        name=region.label,
        own=region.own,
        base=region.address,
        length=region.length,
        size=handle.size,
        page=handle.page,
        readonly=handle.access is Access.READ,
        kind=kind_of(region),
        handle=handle.kind,
        tenant=region.tenant or NO_TENANT,
        blob=handle.data,
        offset=_offset(region),
    )
    return Published(record, handle.fds)


def map_region(runtime: Runtime, record: RegionRecord, fd: int | None, peer: str) -> Mapping:
    """What a peer told of, mapped here. Takes the descriptor over. Raises UsageError for claims
    that cannot be, and what the runtime raises."""
    access = Access.READ if record.readonly else Access.WRITE
    handle = ShareHandle(fd, record.size, record.page, access, record.handle, record.blob)
    with runtime.import_handle(handle) as allocation, ExitStack() as undo:
        check_record(record, peer)
        if record.offset + record.length > allocation.size:
            claim = f"{record.length} bytes from {record.offset} on"
            raise bad_region(record, peer, f"claims {claim}, its handle has {allocation.size}")
        reservation = undo.enter_context(runtime.reserve(allocation.size))
        return runtime.map(allocation, reservation, access)


def region_at(
    here: int, record: RegionRecord, peer: str, epoch: int, path: Path, mapping: Mapping | None
) -> RemoteRegion:
    """A peer's region whose first byte is `here`; no `mapping`: it was mapped before."""
    span = Span(record.base, record.length, here, not record.readonly)
    return RemoteRegion(record, peer, epoch, path, span, mapping)


def _offset(region: Region) -> int:
    """Where it begins in memory that somebody else mapped; its own begins with its memory."""
    where = None if region.allocation is None else region.allocation.address
    return 0 if where is None else region.address - where
