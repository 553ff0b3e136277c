"""Memory of an Ascend device and its host, through CANN.

How own memory comes to be reachable, and which part does it:

    Allocation    aclrtMallocPhysical: kinds.py says of what
    Reservation   blocks of one large reservation: addresses.py
    Mapping       aclrtMapMem, and for the host's memory a second address: binding.py
    ShareHandle   aclrtMemExportToShareableHandleV2: sharing.py

A processor cannot load from device memory, nor from what it imported wherever that lies: copies do
it, `Mapping.reach`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from ... import _core
from ...errors import UsageError
from ..base import Caps, Place, Runtime, ShareHandle, Stream
from ..owners import Access, Allocation, Grant, Mapping, Reservation
from .addresses import CAPACITY, START, Addresses, check_range
from .allocation import CannAllocation
from .binding import Binder
from .checks import (
    check_borrowed,
    check_data,
    check_map,
    check_size,
    fix_rights,
    ours,
    refuse_descriptor,
)
from .device import Device, Identity
from .enums import MemLocationType
from .functions import Capability
from .imports import Imports
from .kinds import Kind
from .library import Library
from .physical import Physical, Physicals
from .sharing import Sharing, check_form
from .stream import CannStreams
from .supply import Supply

__all__ = ["CannRuntime"]

PLACES = {
    MemLocationType.HOST: Place.HOST,
    MemLocationType.HOST_NUMA: Place.HOST,
    MemLocationType.DEVICE: Place.DEVICE,
}


class CannRuntime(Runtime):
    """One device, with a context of its own: the current context of callers' threads stays theirs.

    library       whose functions are called; ACL is initialised, and stays so
    device        as this process counts devices
    engines       carry out what its streams enqueue; without them it has no streams
    validate_pids keep a list of who may import, by the number each told of itself: `whoami`
    shared        the kind of handles it exports: ``vmm-fabric``, on the A3 also for other servers,
                  or ``vmm-default``, for this one
    va_start      where the A3 reserves addresses, `va_capacity` bytes of them; see Addresses

    Thread-safe. `close` ends it with its last owner. Construction raises UsageError for a device,
    kind or range that there is not, before any other call, and Unsupported when the library cannot
    do what was asked.
    """

    def __init__(
        self,
        library: Library,
        device: int,
        engines: _core.CopyEngines | None = None,
        *,
        validate_pids: bool = True,
        shared: str = "vmm-fabric",
        va_start: int = START,
        va_capacity: int = CAPACITY,
    ) -> None:
        check_form(shared)
        check_range(va_start, va_capacity)
        if validate_pids:
            library.require(Capability.PIDS)
        self.library = library
        self._engines = engines
        self.device = Device(library, device)
        with ExitStack() as undo:
            undo.callback(self.device.close)
            with self.device.current():
                self._begin(shared, validate_pids, va_start, va_capacity)
            undo.pop_all()

    def _begin(self, shared: str, validate: bool, start: int, capacity: int) -> None:
        device = self.device
        self._identity = device.identity()
        self._addresses = Addresses(device, start, capacity)
        self._physicals = Physicals(device)
        self._sharing = Sharing(device, shared, validate)
        self._imports = Imports(device, self._physicals, self._sharing)
        self._reach = _core.AclReach(device.calls, device.context)
        self._binder = Binder(
            device,
            self._addresses,
            self._physicals,
            self._sharing,
            self._imports,
            self._identity.tgid,
            self._reach,
        )
        self._supply = Supply(device)
        engines = self._engines
        self._streams = None if engines is None else CannStreams(device, engines, self.aliases)
        crosses = shared == "vmm-fabric" and device.crosses_hosts()
        self.caps = Caps(device_memory=True, cross_host=crosses, dereference=False)

    @property
    def kind(self) -> str:
        """Of the handles it hands out."""
        return self._sharing.kind

    @property
    def aliases(self) -> _core.SpanTable:
        """Own memory that is mapped -> the address by which the device reaches it."""
        return self._binder.aliases

    @property
    def notes(self) -> Sequence[str]:
        """What the machine could not do for the reservation of addresses, a sentence each."""
        return tuple(self._addresses.notes)

    def whoami(self) -> Identity:
        """What peers need to know to let this process import."""
        return self._identity

    def granularity(self, place: Place) -> Sequence[int]:
        return self._supply.pages[place]

    def allocate(self, size: int, place: Place = Place.HOST, page: int = 0) -> Allocation:
        """See Runtime. What the memory holds at first is the driver's matter.

        page 0 takes, on the host, pages of 1 GiB when the size fills one and the machine has them,
        else 2 MiB.
        """
        check_size(size, page, self._supply.pages[place], self._addresses.capacity)

        def attempt(kind: Kind, notes: Sequence[str]) -> Allocation:
            granted = -(-size // kind.page) * kind.page
            prop = kind.prop()
            arguments = granted, ctypes.byref(prop), 0
            free, make = partial(self.library.call, "aclrtFreePhysical"), self.library.make
            physical = self._physicals.add(
                lambda undo: make(undo, free, "aclrtMallocPhysical", *arguments)
            )
            allocation = self._owner(physical, granted, kind.page, place)
            allocation.grant = Grant(size, granted, kind.page, granted, tuple(notes))
            return allocation

        with self.device.using(), self._physicals.lock:
            return self._supply.obtain(size, place, page, attempt)

    def reserve(self, size: int, at: int | None = None) -> Reservation:
        """See Runtime. Whole GiB are taken; `at` must be within 16T to 24T, and not on the 950."""
        if size <= 0 or (at is not None and at <= 0):
            raise UsageError(f"cannot reserve {size} bytes at {at}", cause="bad_range")
        with self.device.using():
            return self._addresses.reserve(size, at)

    def map(self, allocation: Allocation, reservation: Reservation, access: Access) -> Mapping:
        """See Runtime."""
        own = ours(allocation)
        check_map(own, reservation, access)
        with self.device.using(), ExitStack() as failed:
            reservation.bind()
            failed.callback(reservation.unbind)
            undo = failed.enter_context(self._binder.put(own, reservation.address, access))
            reach = None if own.place is Place.HOST else self._reach
            mapping = Mapping(reservation, own.size, access, undo.close, reach)
            failed.pop_all()
        return mapping

    def export(
        self, allocation: Allocation, access: Access, importer: int | None = None
    ) -> ShareHandle:
        """See Runtime. `importer` is the tgid in the importer's `whoami`.

        ACL has no exports for reading only: what `access` says is kept to by importers of ours,
        and others who have the handle and are on the list may write.
        """
        own = ours(allocation)
        with self.device.using(), self._physicals.lock:
            fix_rights(own.physical, access)
            data = self._sharing.name(own.physical, importer)
            own.physical.shared = own.shared = access
        return ShareHandle(None, own.size, own.page, access, self._sharing.kind, data)

    def import_handle(self, handle: ShareHandle) -> Allocation:
        """See Runtime. Blocks while the library asks the owner.

        That the claimed size is right shows when it is mapped: ACL refuses any other.
        """
        refuse_descriptor(handle)
        check_data(handle, check_form(handle.kind).length)
        with self.device.using(), self._physicals.lock, ExitStack() as failed:
            physical = self._imports.take(handle.kind, handle.data)
            failed.callback(physical.drop)
            self._imports.open_peers(physical)
            failed.pop_all()
            return self._owner(physical, handle.size, handle.page, None, handle.access)

    def retain(self, address: int) -> CannAllocation | None:
        """See Runtime; `address` of what is returned is where the memory begins.

        Raises Unsupported where the driver cannot say, such as HDK 25.5.
        """
        with self.device.using(), self._physicals.lock:
            found = self._imports.at(address)
            if found is None:
                return None
            with ExitStack() as failed:
                failed.callback(found.physical.drop)
                page = self._supply.page_of(found.prop)
                self._binder.reach_found(found)
                failed.pop_all()
            place = None if found.physical.imported else PLACES[found.prop.location.type]
            return self._owner(
                found.physical, found.size, page, place, found.physical.shared, found.address
            )

    def borrow(self, address: int, length: int) -> tuple[Allocation, Mapping] | None:
        """See Runtime. What was imported is not ours to share: UsageError."""
        memory = self.retain(address)
        if memory is None:
            return None
        with ExitStack() as failed:
            failed.enter_context(memory)
            check_borrowed(memory, address, length)
            room = Reservation(address, length, _nothing)
            room.bind()
            reach = None if memory.place is Place.HOST else self._reach
            mapping = Mapping(room, length, Access.WRITE, _nothing, reach)
            failed.pop_all()
        return memory, mapping

    def stream(self) -> Stream:
        if self._streams is None:
            raise UsageError("this runtime has no copy engines", cause="no_engines")
        return self._streams.open()

    def close(self) -> None:
        """Begin nothing new; the device is given back when the last owner is closed. Idempotent."""
        self.device.close()

    def _owner(
        self,
        physical: Physical,
        size: int,
        page: int,
        place: Place | None,
        shared: Access | None = None,
        address: int | None = None,
    ) -> CannAllocation:
        """Owns what is held for it already."""
        undo = partial(self._physicals.drop, physical)
        return CannAllocation(physical, size, page, place, undo, shared, address)


def _nothing() -> None:
    """Whoever mapped it will undo it."""
