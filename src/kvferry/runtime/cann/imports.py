"""Memory of other processes, and of others in this one: had once, however often it is asked for."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack, suppress
from functools import partial
from typing import NamedTuple

from ...errors import Unsupported, UsageError
from .device import Device
from .enums import MemLocationType
from .functions import Capability
from .physical import Physical, Physicals
from .sharing import Sharing
from .structs import MemLocation, PhysicalMemProp

__all__ = ["Found", "Imports"]


class Found(NamedTuple):
    """Memory that somebody else in this process mapped: from which address on, and its bytes."""

    physical: Physical
    address: int
    size: int
    prop: PhysicalMemProp


class Imports:
    """Finds memory by names and by addresses. In the device's context, under the lock."""

    def __init__(self, device: Device, physicals: Physicals, sharing: Sharing) -> None:
        self._device = device
        self._physicals = physicals
        self._sharing = sharing
        self._peers = {device.number}

    def take(self, kind: str, data: bytes) -> Physical:
        """The memory of that name. Blocks while its owner is asked.

        ACL refuses a second import by the same process and device, so the first is shared.
        """
        known = self._physicals.held((kind, data))
        if known is not None:
            return known
        find = partial(self._sharing.find, kind, data)
        physical = self._physicals.add(find, imported=True)
        self._physicals.know(physical, (kind, data))
        return physical

    def open_peers(self, physical: Physical) -> None:
        """Let our device at the device that holds the memory, once for each."""
        location = self._location(physical.handle)
        if location is None:
            for peer in range(self._device.count):
                with suppress(Unsupported, UsageError):  # it may be one that is not needed
                    self._open_peer(peer)
        elif location.type == MemLocationType.DEVICE:
            self._open_peer(location.id)

    def at(self, address: int) -> Found | None:
        """What is mapped at an address; None: nothing that has a handle.

        Raises Unsupported where the library or the driver cannot say, such as HDK 25.5.
        """
        self._device.library.require(Capability.RETAIN)
        base, size = ctypes.c_void_p(), ctypes.c_size_t()
        handle = ctypes.c_void_p()
        call = self._device.library.call
        with ExitStack() as undo:
            undo.callback(self._physicals.free, handle)
            try:
                call("aclrtMemGetAddressRange", address, ctypes.byref(base), ctypes.byref(size))
                call("aclrtMemRetainAllocationHandle", base, ctypes.byref(handle))
            except UsageError:
                return None
            physical = self._retained(handle)
            undo.callback(physical.drop)
            found = Found(physical, base.value or 0, size.value, self._prop(physical.handle))
            undo.pop_all()
        return found

    def _retained(self, handle: ctypes.c_void_p) -> Physical:
        """Every retaining needs its own free; one is kept however many hold it here."""
        known = self._physicals.held(handle.value)
        if known is None:
            return self._physicals.add(partial(self._physicals.take_over, handle))
        with ExitStack() as undo:
            undo.callback(known.drop)
            self._physicals.free(handle)
            undo.pop_all()
        return known

    def _open_peer(self, peer: int) -> None:
        # A device of another server may have a number that none has here.
        if peer not in self._peers and peer < self._device.count:
            self._device.library.call("aclrtDeviceEnablePeerAccess", peer, 0)
            self._peers.add(peer)

    def _location(self, handle: int) -> MemLocation | None:
        """Where memory lies; None: the library cannot tell."""
        if not self._device.library.has(Capability.RETAIN):
            return None
        location: MemLocation = self._prop(handle).location
        return location

    def _prop(self, handle: int) -> PhysicalMemProp:
        prop = PhysicalMemProp()
        self._device.library.call(
            "aclrtMemGetAllocationPropertiesFromHandle", handle, ctypes.byref(prop)
        )
        return prop
