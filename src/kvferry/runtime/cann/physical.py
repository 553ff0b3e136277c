"""Physical memory of a process, counted, with the name under which others know it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import ExitStack

from ...errors import ClosedError
from ..owners import Access
from .device import Device

__all__ = ["Physical", "Physicals"]


class Physical:
    """One handle of ACL, or what stands for it, and all who hold it here.

    ACL exports a handle once in a process, and imports one once; both are remembered here.

    handle    what the library calls it
    imported  it is somebody else's
    undo      what is undone when the last holder goes
    keys      by which it is known
    exported  the name under which others import it; empty: not exported yet
    admitted  numbers of the processes that may
    shared    what others may do with it; None: not exported yet
    """

    def __init__(self, imported: bool) -> None:
        self.handle = 0
        self.imported = imported
        self.undo = ExitStack()
        self.keys: list[object] = []
        self.exported = b""
        self.admitted: set[int] = set()
        self.shared: Access | None = None
        self._holders = 1

    def hold(self) -> None:
        """One holder more; ClosedError when the last has gone already."""
        # The garbage collector may drop the last one meanwhile, but in the midst of no step.
        self._holders += 1
        if self._holders == 1:
            self._holders = 0
            raise ClosedError("the memory was freed", cause="closed")

    def drop(self) -> None:
        """One holder less; the last one frees it."""
        self._holders -= 1
        if self._holders == 0:
            self.undo.close()


class Physicals:
    """What a runtime holds, each thing once. Under `lock`, in the device's context.

    lock  taken again by the thread that has it when the garbage collector closes an owner there
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._known: dict[object, Physical] = {}
        self.lock = threading.RLock()

    def add(self, make: Callable[[ExitStack], int], imported: bool = False) -> Physical:
        """Memory that nobody here has yet. `make` gives its handle, or what stands for that, and
        leaves with the stack what frees it: done when its last holder goes."""
        physical = Physical(imported)
        try:
            physical.undo.callback(self._device.keep())
            physical.handle = make(physical.undo)
            physical.undo.callback(self._forget, physical)
            self.know(physical, physical.handle)
        except BaseException:
            physical.undo.close()
            raise
        return physical

    def free(self, handle: ctypes.c_void_p) -> None:
        """Give a handle back, once; nothing when there is none."""
        value, handle.value = handle.value, None
        if value:
            self._device.library.call("aclrtFreePhysical", value)

    def take_over(self, handle: ctypes.c_void_p, undo: ExitStack) -> int:
        """The `make` for a handle that is there."""
        undo.callback(self.free, handle)
        return handle.value or 0

    def know(self, physical: Physical, key: object) -> None:
        """By a handle, or by the name of an import."""
        physical.keys.append(key)
        self._known[key] = physical

    def held(self, key: object) -> Physical | None:
        """What is known by the key, held once more; None: nothing."""
        physical = self._known.get(key)
        try:
            if physical is not None:
                physical.hold()
        except ClosedError:
            return None
        return physical

    def drop(self, physical: Physical) -> None:
        """One holder less, from anywhere."""
        with self.lock, self._device.current():
            physical.drop()

    def _forget(self, physical: Physical) -> None:
        for key in physical.keys:
            if self._known.get(key) is physical:
                del self._known[key]
