"""What is done for one mapping, and undone when it goes.

own device memory    map                                          alias: itself
own host memory      map, give the device access, and once more   alias: where it was mapped again
                     as an import of its own export
imported memory      map, for reading only where it must be       no alias: it is nobody's own
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from ... import _core
from ...errors import Error
from ..base import Place
from ..owners import Access
from .addresses import Addresses
from .allocation import CannAllocation
from .device import Device
from .enums import MemAccessFlags, MemLocationType
from .imports import Found, Imports
from .physical import Physical, Physicals
from .sharing import Sharing
from .structs import MemAccessDesc, MemLocation

__all__ = ["Binder"]

ACCESS = {Access.READ: MemAccessFlags.READ, Access.WRITE: MemAccessFlags.READWRITE}


class Binder:
    """Maps. In the device's context; what it returns is undone from anywhere.

    tgid     this process, as one that may import its own memory
    reach    copies for the processor what that cannot touch
    aliases  own memory -> by which address the device reaches it, and, where the processor cannot,
             what reaches it
    """

    def __init__(
        self,
        device: Device,
        addresses: Addresses,
        physicals: Physicals,
        sharing: Sharing,
        imports: Imports,
        tgid: int | None,
        reach: _core.Reach,
    ) -> None:
        self._device = device
        self._addresses = addresses
        self._physicals = physicals
        self._sharing = sharing
        self._imports = imports
        self._tgid = tgid
        self._reach = reach
        self.aliases = _core.SpanTable()

    def put(self, allocation: CannAllocation, address: int, access: Access) -> ExitStack:
        """Memory behind an address; leave what is returned to undo it."""
        with ExitStack() as undo:
            undo.callback(self._device.keep())
            with self._physicals.lock:
                allocation.physical.hold()
            undo.callback(self._physicals.drop, allocation.physical)
            self._map(undo, allocation.physical, allocation.size, address)
            if allocation.place is None:
                if access is Access.READ:
                    self._open(address, allocation.size, access)
            elif allocation.place is Place.HOST:
                self._open(address, allocation.size, Access.WRITE)
                again = self._map_again(undo, allocation.physical, allocation.size)
                self._alias(undo, _core.Span(address, allocation.size, again, True))
            else:
                self.alias_device(undo, address, allocation.size)
            return undo.pop_all()

    def alias_device(self, undo: ExitStack, address: int, size: int) -> None:
        """Memory of the device is where it is, and the processor does not touch it."""
        self._alias(undo, _core.Span(address, size, address, True, _core.OFFER_NONE, self._reach))

    def _alias(self, undo: ExitStack, span: _core.Span) -> None:
        """Until undone."""
        with self._physicals.lock:
            self.aliases.add(span)
        undo.callback(self._forget, span)

    def reach_found(self, found: Found) -> None:
        """Memory of the device that others here mapped: as good as our own, until it is let go.
        Under the lock."""
        on_device = found.prop.location.type == MemLocationType.DEVICE
        known = self.aliases.overlapping(found.address, found.size)
        if on_device and not known and not found.physical.imported:
            self.alias_device(found.physical.undo, found.address, found.size)

    def _forget(self, span: _core.Span) -> None:
        with self._physicals.lock:
            self.aliases.discard(span)

    def _map(
        self,
        undo: ExitStack,
        physical: Physical,
        size: int,
        address: int,
        *then: Callable[[], object],
    ) -> None:
        """`then` is done when it was unmapped."""
        call = self._device.library.call
        try:
            call("aclrtMapMem", address, size, 0, physical.handle, 0)
        except Error:
            raise
        except BaseException:  # a signal handler raised: perhaps behind the call
            with suppress(Error):
                call("aclrtUnmapMem", address)
            raise
        undo.callback(self._unmap, address, (self._device.keep(), *then))

    def _unmap(self, address: int, then: Sequence[Callable[[], object]]) -> None:
        # What cannot be unmapped keeps its addresses, and the device that they belong to: nothing
        # else can be mapped there, nor can they be given back.
        self._device.call("aclrtUnmapMem", address)
        for each in then:
            each()

    def _open(self, address: int, size: int, access: Access) -> None:
        """Say what the device may do there."""
        where = MemLocation(id=self._device.logical(), type=MemLocationType.DEVICE)
        desc = MemAccessDesc(flags=ACCESS[access], location=where)
        self._device.library.call("aclrtMemSetAccess", address, size, ctypes.byref(desc), 1)

    def _map_again(self, undo: ExitStack, physical: Physical, size: int) -> int:
        """The address by which copy engines of the device reach host memory of our own."""
        with self._physicals.lock:
            name = self._sharing.name(physical, self._tgid)
            own = self._imports.take(self._sharing.kind, name)
        undo.callback(self._physicals.drop, own)
        room = self._addresses.reserve(size)
        undo.callback(room.close)
        self._map(undo, own, size, room.address, room.unbind)
        room.bind()
        return room.address
