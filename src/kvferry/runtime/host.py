"""The host's memory: memory files, committed when they are allocated. Linux, no privileges.

How an allocation gets its pages, in this order, because each step depends on the one before:

    1  sums: is there room in the machine and in our control groups? else NoMemory
    2  memory file, mode, size, seals
    3  map it at a multiple of 2 MiB, ask for huge pages
    4  bring in all pages, in parallel
    5  copy together what stayed small
    6  fallocate, which now only fills what a hole punched meanwhile; first, it would have left
       small pages everywhere
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from .. import _core
from ..errors import NoMemory, RightsError, Unsupported, UsageError
from . import commit, memfile
from .base import Caps, Place, Runtime, ShareHandle, Stream
from .host_stream import HostStream
from .memfile import HUGE, must
from .owners import Access, Allocation, Grant, Mapping, Reservation

__all__ = ["HostRuntime"]

PAGE = mmap.PAGESIZE
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB"
MOST = 1 << 62

# The unit of st_blocks.
BLOCK = 512

# How a kernel refuses advice it does not know, and a writable mapping of what is read-only.
NOT_KNOWN = (errno.EINVAL, errno.ENOSYS)
NOT_ALLOWED = (errno.EACCES, errno.EPERM)


class HostRuntime(Runtime):
    """Memory files of this host. Thread-safe; holds nothing itself.

    engines  carry out what its streams enqueue; without them it has no streams
    threads  native threads that bring in pages; default: the usable processors, 8 at most
    """

    caps = Caps(coprocessor=True)

    def __init__(
        self, engines: _core.CopyEngines | None = None, *, threads: int | None = None
    ) -> None:
        self._engines = engines
        self.threads = threads or min(len(os.sched_getaffinity(0)), 8)

    def granularity(self, place: Place) -> Sequence[int]:
        return (PAGE, HUGE)

    def allocate(self, size: int, place: Place = Place.HOST, page: int = 0) -> Allocation:
        """Memory that peers can map; see Runtime.

        page 0 takes pages of the kernel's 2 MiB pool when it has enough, else base pages, which the
        kernel makes huge where it can. 2 MiB insists on the pool.
        """
        if place is not Place.HOST:
            raise Unsupported(
                f"this runtime has no {place.value} memory: it is the host's", cause="no_device"
            )
        if size <= 0:
            raise UsageError(f"cannot allocate {size} bytes", cause="bad_size")
        if page not in (0, PAGE, HUGE):
            raise UsageError(f"no pages of {page} bytes: know {PAGE}, {HUGE}", cause="bad_page")
        if page == HUGE or (page == 0 and HUGE <= size <= _pool().available):
            try:
                return self._allocate(size, HUGE, [_pool()])
            except NoMemory:
                if page == HUGE:
                    raise
        return self._allocate(size, PAGE, commit.rooms(_read))

    def reserve(self, size: int, at: int | None = None) -> Reservation:
        if size <= 0 or (at is not None and (at <= 0 or at % PAGE)):
            raise UsageError(f"cannot reserve {size} bytes at {at}", cause="bad_range")
        size = _round_up(min(size, MOST), PAGE)
        code, address = (
            _core.vm_reserve(size, max(PAGE, HUGE)) if at is None else _core.vm_reserve_at(size, at)
        )
        if code == errno.EEXIST:
            raise NoMemory("the range is in use", cause="address_taken", range=(at or 0, size))
        must(f"reserving {size} bytes of addresses", code)
        return Reservation(address, size, partial(_release, address, size))

    def map(self, allocation: Allocation, reservation: Reservation, access: Access) -> Mapping:
        """See Runtime. Brings the page tables in, so that the first copies do not fault."""
        allocation.check()
        reservation.check()
        if allocation.size > reservation.size or reservation.address % allocation.page:
            raise UsageError(
                f"{allocation.size} bytes in pages of {allocation.page} do not fit the reservation",
                cause="bad_range",
                range=(reservation.address, reservation.size),
            )
        mapping = _bind(allocation, reservation, access)
        # Only of memory that is all there: a hole would be filled at our expense.
        if os.fstat(allocation.handle).st_blocks * BLOCK >= allocation.size:
            how = _core.POPULATE_WRITE if access is Access.WRITE else _core.POPULATE_READ
            self._populate(mapping, how)
        return mapping

    def export(
        self, allocation: Allocation, access: Access, importer: int | None = None
    ) -> ShareHandle:
        """See Runtime. Who holds the descriptor may map it: there is no list."""
        allocation.check()
        if allocation.shared not in (None, access):
            raise RightsError(
                f"already exported to {allocation.shared.value}, not to {access.value}",
                cause="export_rights",
            )
        return memfile.hand_out(allocation, access)

    def narrow(self, handle: ShareHandle) -> ShareHandle:
        return memfile.narrow(handle)

    def import_handle(self, handle: ShareHandle) -> Allocation:
        return memfile.take_over(handle)

    def retain(self, address: int) -> Allocation | None:
        """None: the host's memory cannot be had by its address."""
        return None

    def stream(self) -> Stream:
        if self._engines is None:
            raise UsageError("this runtime has no copy engines", cause="no_engines")
        return HostStream(self._engines)

    def _allocate(self, asked: int, page: int, rooms: Iterable[commit.Room]) -> Allocation:
        granted = _round_up(asked, page)
        commit.check(granted, rooms)
        with ExitStack() as undo:
            allocation = undo.enter_context(memfile.create(granted, page))
            huge, notes = self._commit(allocation)
            allocation.grant = Grant(asked, granted, page, huge, notes)
            undo.pop_all()
        return allocation

    def _commit(self, allocation: Allocation) -> tuple[int, tuple[str, ...]]:
        """Steps 3 to 6: the bytes that stand in huge pages, and notes for the grant."""
        with ExitStack() as undo:
            reservation = undo.enter_context(self.reserve(allocation.size))
            mapping = undo.enter_context(_bind(allocation, reservation, Access.WRITE))
            huge, notes = allocation.size, self._bring_in(mapping)
            if allocation.page != HUGE:
                huge, more = self._collapse(mapping)
                notes += more
            try:
                os.posix_fallocate(allocation.handle, 0, allocation.size)
            except OSError as error:
                must("fallocate", error.errno or errno.ENOSPC)
        return huge, notes

    def _bring_in(self, mapping: Mapping) -> tuple[str, ...]:
        # Advice: without it the pages are small, and step 5 has more to do.
        _core.vm_hugepage(mapping.address, mapping.size)
        code = self._populate(mapping, _core.POPULATE_WRITE)
        if code in NOT_KNOWN:
            self._populate(mapping, _core.POPULATE_TOUCH)
            return ("pages were touched one by one: no MADV_POPULATE_WRITE",)
        must("bringing the pages in", code)
        return ()

    def _populate(self, mapping: Mapping, how: int) -> int:
        return _core.vm_populate(mapping.address, mapping.size, how, self.threads)

    def _collapse(self, mapping: Mapping) -> tuple[int, tuple[str, ...]]:
        """Best effort: the bytes in huge pages, and why there are not more."""
        could = mapping.size // HUGE * HUGE
        huge = _huge(mapping)
        if huge >= could:
            return huge, ()
        code = _core.vm_collapse(mapping.address, mapping.size, self.threads)
        huge = _huge(mapping)
        if huge >= could:
            return huge, ()
        why = os.strerror(code) if code else "the kernel left them"
        return huge, (f"{could - huge} bytes stayed in small pages: {why}",)


def _bind(allocation: Allocation, reservation: Reservation, access: Access) -> Mapping:
    """Map, and nothing else. Undoing also serves a mapping that the kernel refused."""
    address, size = reservation.address, allocation.size
    reservation.bind()
    with ExitStack() as undo:
        mapping = undo.enter_context(
            Mapping(reservation, size, access, partial(_unmap, address, size))
        )
        code = _core.vm_map(allocation.handle, 0, size, address, access is Access.WRITE)
        if code in NOT_ALLOWED:
            raise RightsError("the memory is read-only here", cause="read_only")
        must(f"mapping {size} bytes", code)
        undo.pop_all()
    return mapping


def _unmap(address: int, size: int) -> None:
    must("unmapping", _core.vm_unmap(address, size))


def _release(address: int, size: int) -> None:
    must("releasing addresses", _core.vm_release(address, size))


def _huge(mapping: Mapping) -> int:
    with open("/proc/self/smaps") as smaps:
        return commit.huge_bytes(smaps, mapping.address)


def _pool() -> commit.Room:
    free = commit.free_pages(_read(f"{POOL}/free_hugepages"), _read(f"{POOL}/resv_hugepages"))
    return commit.Room("free pages of the 2 MiB pool", free * HUGE)


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None


def _round_up(size: int, page: int) -> int:
    return -(-size // page) * page
