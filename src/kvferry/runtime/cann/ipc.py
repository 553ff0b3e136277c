"""Device memory that processes of one server share by keys: for drivers and devices where handles
of physical memory do not serve.

    aclrtMalloc -> aclrtIpcMemGetExportKey -> SetImportPid ~~ key ~~> aclrtIpcMemImportByKey

Such memory comes with its addresses, on both sides: what is reserved for a mapping stays unused.
The memory of another device is copied on streams alone, from device to device.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from ...errors import UsageError
from ..base import Place, ShareHandle
from ..owners import Access, Allocation, Grant, Mapping, Reservation
from .allocation import CannAllocation
from .checks import check_data, check_map, check_size, fix_rights, ours, refuse_descriptor
from .enums import IpcExport, IpcImport, MemMallocPolicy
from .functions import Capability
from .kinds import GIANT, HUGE
from .physical import Physical
from .runtime import CannRuntime

__all__ = ["KIND", "CannIpcRuntime"]

KIND = "ipc-key"
LENGTH = 65  # bytes of a key, the last is 0

POLICIES = {HUGE: MemMallocPolicy.HUGE_ONLY, GIANT: MemMallocPolicy.HUGE1G_ONLY}


class KeyedAllocation(CannAllocation):
    """See CannAllocation. Its memory is freed when its mappings are gone, too."""


class CannIpcRuntime(CannRuntime):
    """See CannRuntime. Device memory is shared by key; the host's as there, inside one server.

    A mapping's addresses are the memory's own, not those of its reservation, which it still takes.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"shared": "vmm-default", **options})

    def allocate(self, size: int, place: Place = Place.HOST, page: int = 0) -> Allocation:
        if place is not Place.DEVICE:
            return super().allocate(size, place, page)
        check_size(size, page, self._supply.pages[place], self._addresses.capacity)
        page = page or HUGE
        granted = -(-size // page) * page
        with self.device.using(), self._physicals.lock, ExitStack() as failed:
            free = partial(self.library.call, "aclrtFree")
            make = self.library.make
            physical = self._physicals.add(
                lambda undo: make(undo, free, "aclrtMalloc", granted, POLICIES[page])
            )
            failed.callback(physical.drop)
            self._binder.alias_device(physical.undo, physical.handle, granted)
            allocation = self._keyed(physical, granted, page, place)
            failed.pop_all()
        allocation.grant = Grant(size, granted, page, granted)
        return allocation

    def map(self, allocation: Allocation, reservation: Reservation, access: Access) -> Mapping:
        """See Runtime, and the class for the addresses."""
        if not isinstance(allocation, KeyedAllocation):
            return super().map(allocation, reservation, access)
        own = ours(allocation)
        check_map(own, reservation, access)
        with self.device.using(), ExitStack() as undo:
            undo.callback(self.device.keep())
            reservation.bind()
            undo.callback(reservation.unbind)
            with self._physicals.lock:
                own.physical.hold()
            undo.callback(self._physicals.drop, own.physical)
            brought = Reservation(own.handle, own.size, _nothing)
            brought.bind()
            return Mapping(brought, own.size, access, undo.pop_all().close, self._reach)

    def export(
        self, allocation: Allocation, access: Access, importer: int | None = None
    ) -> ShareHandle:
        """See CannRuntime."""
        if not isinstance(allocation, KeyedAllocation):
            return super().export(allocation, access, importer)
        own = ours(allocation)
        with self.device.using(), self._physicals.lock:
            fix_rights(own.physical, access)
            key = self._key(own.physical, own.size, importer)
            own.physical.shared = own.shared = access
        return ShareHandle(None, own.size, own.page, access, KIND, key)

    def import_handle(self, handle: ShareHandle) -> Allocation:
        """See CannRuntime. The claimed size is checked where the library can tell the true one."""
        if handle.kind != KIND:
            return super().import_handle(handle)
        refuse_descriptor(handle)
        check_data(handle, LENGTH)
        with self.device.using(), self._physicals.lock, ExitStack() as failed:
            physical = self._physicals.held((KIND, handle.data)) or self._import(handle.data)
            failed.callback(physical.drop)
            self._check_claim(physical.handle, handle.size)
            allocation = self._keyed(physical, handle.size, handle.page, None, handle.access)
            failed.pop_all()
        return allocation

    def _keyed(
        self,
        physical: Physical,
        size: int,
        page: int,
        place: Place | None,
        shared: Access | None = None,
    ) -> KeyedAllocation:
        undo = partial(self._physicals.drop, physical)
        return KeyedAllocation(physical, size, page, place, undo, shared, physical.handle)

    def _key(self, physical: Physical, size: int, importer: int | None) -> bytes:
        if not physical.exported:
            key = ctypes.create_string_buffer(LENGTH)
            flag = IpcExport.DISABLE_PID_VALIDATION if self._sharing.unlisted() else 0
            self.library.call("aclrtIpcMemGetExportKey", physical.handle, size, key, LENGTH, flag)
            physical.undo.callback(self.library.call, "aclrtIpcMemClose", key)
            physical.exported = key.raw
        self._sharing.admit(physical, importer, "aclrtIpcMemSetImportPid", physical.exported)
        return physical.exported

    def _import(self, data: bytes) -> Physical:
        key = ctypes.create_string_buffer(data, LENGTH + 1)
        flag = IpcImport.ENABLE_PEER_ACCESS

        def close(_address: int) -> None:
            self.library.call("aclrtIpcMemClose", key)

        def find(undo: ExitStack) -> int:
            return self.library.make(undo, close, "aclrtIpcMemImportByKey", key, flag)

        physical = self._physicals.add(find, imported=True)
        self._physicals.know(physical, (KIND, data))
        return physical

    def _check_claim(self, address: int, claimed: int) -> None:
        if not self.library.has(Capability.RANGES):
            return
        base, size = ctypes.c_void_p(), ctypes.c_size_t(claimed)
        with suppress(UsageError):  # it may know of other memory only
            self.library.call(
                "aclrtMemGetAddressRange", address, ctypes.byref(base), ctypes.byref(size)
            )
        if claimed > size.value:
            raise UsageError(
                f"the handle claims {claimed} bytes of {size.value}", cause="bad_handle"
            )


def _nothing() -> None:
    pass
