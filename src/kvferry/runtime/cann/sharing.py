"""Handles that other processes import physical memory by.

    exporter                               importer
    export, once -> bytes                  its number: Identity.tgid
    admit the importer's number   <------  told by itself, over an authenticated connection
    the bytes                     ------>  import, once, and count who uses it

The list of who may acts inside one server only, and the bytes can be guessed: docs/security.md.
"""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from typing import NamedTuple

from ... import log
from ...errors import UsageError
from .device import Device
from .enums import MemSharedHandleType, VmmExport
from .physical import Physical

__all__ = ["FORMS", "Form", "Sharing", "check_form"]

logger = log.get("kvferry.runtime")


class Form(NamedTuple):
    """A kind of handle: what ACL calls it, and its bytes."""

    type: MemSharedHandleType
    length: int


FORMS = {
    "vmm-fabric": Form(MemSharedHandleType.FABRIC, 128),
    "vmm-default": Form(MemSharedHandleType.DEFAULT, 8),
}


class Sharing:
    """Names memory for others, in one form, and finds theirs, in any.

    All in the device's context and under the runtime's lock.

    kind      of the handles, a key of FORMS
    validate  keep a list of who may import; without one a warning is logged, once
    """

    def __init__(self, device: Device, kind: str, validate: bool) -> None:
        self._library = device.library
        self.kind = kind
        self.validate = validate
        self._warned = False

    def name(self, physical: Physical, importer: int | None) -> bytes:
        """The bytes by which others import it, the importer among them where there is a list."""
        form = FORMS[self.kind]
        if not physical.exported:
            physical.exported = self._export(physical.handle, form)
        name = ctypes.create_string_buffer(physical.exported, form.length)
        self.admit(physical, importer, "aclrtMemSetPidToShareableHandleV2", name, form.type)
        return physical.exported

    def admit(
        self, physical: Physical, importer: int | None, name: str, *arguments: object
    ) -> None:
        """Have the function `name` add the importer to the list, where there is one, once."""
        if self.validate and importer is not None and importer not in physical.admitted:
            number = ctypes.c_int32(importer)
            self._library.call(name, *arguments, ctypes.byref(number), 1)
            physical.admitted.add(importer)

    def find(self, kind: str, data: bytes, undo: ExitStack) -> int:
        """The library's handle for the memory of that name, which `undo` frees, also when a signal
        handler raises right behind the call. Blocks while its owner is asked."""
        form = FORMS[kind]
        name = ctypes.create_string_buffer(data, form.length)
        place = ctypes.c_void_p()
        undo.callback(self._free, place)
        self._library.call(
            "aclrtMemImportFromShareableHandleV2", name, form.type, 0, ctypes.byref(place)
        )
        return place.value or 0

    def _free(self, place: ctypes.c_void_p) -> None:
        if place.value:
            self._library.call("aclrtFreePhysical", place)

    def unlisted(self) -> bool:
        """Whether what is exported now can be imported by all."""
        if not self.validate and not self._warned:
            self._warned = True
            logger.warning("memory is exported without a list of the processes that may import it")
        return not self.validate

    def _export(self, handle: int, form: Form) -> bytes:
        name = ctypes.create_string_buffer(form.length)
        flag = VmmExport.DISABLE_PID_VALIDATION if self.unlisted() else VmmExport.DEFAULT
        self._library.call("aclrtMemExportToShareableHandleV2", handle, flag, form.type, name)
        return name.raw


def check_form(kind: str) -> Form:
    """The form of that name. UsageError when there is none."""
    if kind not in FORMS:
        raise UsageError(f"no handles {kind!r}: know {', '.join(FORMS)}", cause="bad_handle")
    return FORMS[kind]
