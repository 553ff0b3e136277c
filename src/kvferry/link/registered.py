"""Regions that are reached by the addresses their owner has them at: nothing is mapped here.

owner      |#### region ####|
               | the record alone
here       base, length                       remote addresses stay the owner's own
"""

from __future__ import annotations

from .._core import Span
from ..errors import UsageError
from ..memory import NO_TENANT, Region, RegionRecord, RemoteRegion
from ..path import Path
from ..runtime import Access
from .base import Published

__all__ = [
    "attach_registered",
    "bad_region",
    "check_record",
    "kind_of",
    "publish_registered",
]

ADDRESSES = 1 << 64

# RegionRecord.handle of what is reached without a descriptor.
ADDRESS = "address"


def publish_registered(region: Region, most: Access = Access.WRITE) -> Published:
    """Any region, own or foreign, without descriptors; for one who may do `most` with it."""
    record = RegionRecord(
        serial=region.serial,
        name=region.label,
        own=region.own,
        base=region.address,
        length=region.length,
        size=region.length,
        page=1,
        readonly=region.readonly or Access.READ in (region.shared, most),
        kind=kind_of(region),
        handle=ADDRESS,
        tenant=region.tenant or NO_TENANT,
    )
    return Published(record, [])


def attach_registered(published: Published, peer: str, epoch: int, path: Path) -> RemoteRegion:
    """A peer's region as it stands there. Raises UsageError, also when descriptors come with it,
    and closes those."""
    record = published.record
    if published.fds:
        published.discard()
        raise bad_region(record, peer, f"comes with {len(published.fds)} descriptors")
    if record.handle != ADDRESS:
        raise bad_region(record, peer, f"is to be reached by {record.handle!r}")
    check_record(record, peer)
    span = Span(record.base, record.length, record.base, not record.readonly)
    return RemoteRegion(record, peer, epoch, path, span, None)


def kind_of(region: Region) -> str:
    """RegionRecord.kind: what may touch its memory."""
    return "host" if region.reach is None else "device"


def check_record(record: RegionRecord, peer: str) -> None:
    """Raises UsageError for what is no range of addresses."""
    if not 0 < record.length <= ADDRESSES:
        raise bad_region(record, peer, f"claims {record.length} bytes")
    if not 0 <= record.base <= ADDRESSES - record.length:
        raise bad_region(record, peer, f"claims to lie at {record.base:#x}")


def bad_region(record: RegionRecord, peer: str, what: str) -> UsageError:
    """What a peer told of a region cannot be."""
    return UsageError(f"region {record.name!r} {what}", cause="bad_handle", peer=peer)
