"""The software NPU through ctypes, in this process."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import kvferry

NPU = Path(kvferry.__file__).parent / "npu"
LIBRARY = NPU / "libascendcl.so"

HUGE = 2 << 20
H2D, D2H, D2D = 1, 2, 3
FABRIC, LIST_OFF = 2, 1

ARGUMENTS: dict[str, list[Any]] = {
    "aclInit": [c_char_p],
    "aclrtSetDevice": [c_int32],
    "aclrtResetDevice": [c_int32],
    "aclrtMalloc": [POINTER(c_void_p), c_size_t, c_int],
    "aclrtFree": [c_void_p],
    "aclrtMemcpy": [c_void_p, c_size_t, c_void_p, c_size_t, c_int],
    "aclrtMallocPhysical": [POINTER(c_void_p), c_size_t, c_void_p, c_uint64],
    "aclrtFreePhysical": [c_void_p],
    "aclrtReserveMemAddress": [POINTER(c_void_p), c_size_t, c_size_t, c_void_p, c_uint64],
    "aclrtReleaseMemAddress": [c_void_p],
    "aclrtMapMem": [c_void_p, c_size_t, c_size_t, c_void_p, c_uint64],
    "aclrtUnmapMem": [c_void_p],
    "aclrtMemExportToShareableHandleV2": [c_void_p, c_uint64, c_int, c_void_p],
    "aclrtMemImportFromShareableHandleV2": [c_void_p, c_int, c_uint64, POINTER(c_void_p)],
}


class Location(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint32), ("type", c_int))


class PhysicalMemProp(ctypes.Structure):
    _fields_ = (
        ("handle_type", c_int),
        ("allocation_type", c_int),
        ("attribute", c_int),
        ("location", Location),
        ("reserve", c_uint64),
    )


class Refused(AssertionError):
    """A call that did not return 0."""


class Acl:
    """Calls by name; anything but 0 raises Refused. Pointers are numbers."""

    def __init__(self, **environ: str) -> None:
        for name in [name for name in os.environ if name.startswith("NPU_")]:
            del os.environ[name]
        os.environ.update({"NPU_QUIET": "1", **environ})
        self._library = ctypes.CDLL(str(LIBRARY))
        self._library.aclGetRecentErrMsg.restype = c_char_p
        for name, arguments in ARGUMENTS.items():
            getattr(self._library, name).argtypes = arguments

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise Refused(f"{name}: {code}: {self._library.aclGetRecentErrMsg().decode()}")

    def made(self, name: str, *arguments: Any) -> int:
        """What a call puts where its first argument points."""
        place = c_void_p()
        self(name, byref(place), *arguments)
        assert place.value is not None
        return place.value

    def books(self) -> list[int]:
        counts = (c_uint64 * 8)()
        self._library.npu_books(counts)
        return list(counts)

    def mapped(self, handle: int) -> int:
        address = self.made("aclrtReserveMemAddress", HUGE, 0, None, 1)
        self("aclrtMapMem", address, HUGE, 0, handle, 0)
        return address

    def unmap(self, address: int) -> None:
        self("aclrtUnmapMem", address)
        self("aclrtReleaseMemAddress", address)

    def write(self, address: int, data: bytes) -> None:
        self("aclrtMemcpy", address, len(data), data, len(data), H2D)

    def read(self, address: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(size)
        self("aclrtMemcpy", data, size, address, size, D2H)
        return data.raw
