"""Bytes to a device and back, by the library whose name is the argument; prints how it went."""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_char_p, c_int, c_size_t, c_void_p

acl = ctypes.CDLL(sys.argv[1])
acl.aclrtMemcpy.argtypes = [c_void_p, c_size_t, c_void_p, c_size_t, c_int]
acl.aclrtMalloc.argtypes = [c_void_p, c_size_t, c_int]
acl.aclrtFree.argtypes = [c_void_p]
acl.aclrtGetSocName.restype = c_char_p

there, data, back = c_void_p(), bytes(range(256)) * 64, ctypes.create_string_buffer(1 << 14)
codes = [
    acl.aclInit(None),
    acl.aclrtSetDevice(0),
    acl.aclrtMalloc(ctypes.byref(there), len(data), 0),
    acl.aclrtMemcpy(there, len(data), data, len(data), 1),
    acl.aclrtMemcpy(back, len(data), there, len(data), 2),
    acl.aclrtFree(there),
    acl.aclrtResetDevice(0),
    acl.aclFinalize(),
]
print(acl.aclrtGetSocName().decode(), codes, back.raw == data)
