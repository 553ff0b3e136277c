"""What is refused before the library is asked: arguments of callers, handles of strangers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...errors import NoMemory, RightsError, UsageError
from ..base import ShareHandle
from ..owners import Access, Allocation, Reservation
from .allocation import CannAllocation
from .physical import Physical

__all__ = [
    "check_borrowed",
    "check_data",
    "check_map",
    "check_size",
    "fix_rights",
    "ours",
    "refuse_descriptor",
]


def ours(allocation: Allocation) -> CannAllocation:
    """It, when it is of this kind of runtime and open."""
    if not isinstance(allocation, CannAllocation):
        raise UsageError("the memory belongs to another runtime", cause="bad_allocation")
    allocation.check()
    return allocation


def check_size(size: int, page: int, pages: Sequence[int], most: int) -> None:
    """Of an allocation. `pages` are those there are, `most` the bytes that can be addressed."""
    if size <= 0:
        raise UsageError(f"cannot allocate {size} bytes", cause="bad_size")
    if page and page not in pages:
        known = ", ".join(map(str, pages))
        raise UsageError(f"no pages of {page} bytes: know {known}", cause="bad_page")
    if size > most:
        raise NoMemory(f"asked for {size} bytes: {most} can be addressed", cause="no_memory")


def check_map(allocation: CannAllocation, reservation: Reservation, access: Access) -> None:
    """Does it fit, and may it be done?"""
    reservation.check()
    if allocation.size > reservation.size or reservation.address % allocation.page:
        raise UsageError(
            f"{allocation.size} bytes in pages of {allocation.page} do not fit the reservation",
            cause="bad_range",
            range=(reservation.address, reservation.size),
        )
    read_only = allocation.physical.imported and allocation.shared is Access.READ
    if read_only and access is Access.WRITE:
        raise RightsError("the memory is read-only here", cause="read_only")


def fix_rights(physical: Physical, access: Access) -> None:
    """See Runtime.export: the first export says what others may do."""
    if physical.imported:
        raise RightsError("memory of another process is not ours to export", cause="imported")
    if physical.shared not in (None, access):
        raise RightsError(
            f"already exported to {physical.shared.value}, not to {access.value}",
            cause="export_rights",
        )


def check_borrowed(memory: CannAllocation, address: int, length: int) -> None:
    """May a range of memory that somebody else here mapped be shared?"""
    if memory.place is None:
        raise UsageError(
            "the memory was imported from another process, which alone can share it",
            cause="imported",
            range=(address, length),
        )
    begin = address - (memory.address or 0)
    if begin + length > memory.size:
        raise UsageError(
            f"the range leaves its allocation of {memory.size} bytes",
            cause="out_of_bounds",
            range=(address, length),
        )


def check_data(handle: ShareHandle, length: int) -> None:
    """Refuse what cannot be a handle of its kind, which has `length` bytes."""
    if len(handle.data) != length:
        raise UsageError(
            f"{len(handle.data)} bytes are no {handle.kind} handle, which has {length}",
            cause="bad_handle",
        )
    if handle.page <= 0 or handle.size <= 0 or handle.size % handle.page:
        raise UsageError(
            f"the handle claims {handle.size} bytes in pages of {handle.page}", cause="bad_handle"
        )


def refuse_descriptor(handle: ShareHandle) -> None:
    """Its receiver owns it, also when it should not be there."""
    if handle.fd is not None:
        os.close(handle.fd)
        raise UsageError("a descriptor is no handle of this runtime", cause="bad_handle")
