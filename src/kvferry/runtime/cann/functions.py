"""The ACL functions we call: name, arguments as C spells their types, and what needs them.

A library of another age lacks some of them; then only the capabilities that need those are missing.
Everything returns aclError, 0 for success, except what stands in TEXTS.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER
from enum import Enum
from typing import Any, NamedTuple

from . import structs

__all__ = ["FUNCTIONS", "TYPES", "Capability", "Function"]


class Capability(Enum):
    """What a set of functions is needed for."""

    CORE = "devices and contexts"
    RESET = "forced reset"
    NUMBERS = "device numbers"
    PIDS = "device pids"
    PEERS = "peer access"
    STREAMS = "streams"
    ABORT = "stream abort"
    STOP = "stream stop"
    COPIES = "copies"
    BATCHES = "batch copies"
    MEMORY = "plain memory"
    VIRTUAL = "virtual memory"
    HIGH_RESERVE = "high reservations"
    RETAIN = "memory of others"
    RANGES = "address ranges"
    POINTERS = "pointer attributes"
    SHARING_V1 = "sharing"
    SHARING_V2 = "fabric sharing"
    IPC_KEYS = "ipc keys"
    HOST = "host registration"


class Function(NamedTuple):
    """One function. `arguments` and `result` are keys of TYPES."""

    name: str
    arguments: tuple[str, ...]
    result: str
    capability: Capability


# How ctypes passes what C calls so. An enumeration is an int, a handle a pointer.
TYPES: dict[str, Any] = {
    "aclError": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "int32_t*": POINTER(ctypes.c_int32),
    "uint32_t*": POINTER(ctypes.c_uint32),
    "uint64_t*": POINTER(ctypes.c_uint64),
    "size_t*": POINTER(ctypes.c_size_t),
    "char*": ctypes.c_char_p,
    "const char*": ctypes.c_char_p,
    "void*": ctypes.c_void_p,
    "const void*": ctypes.c_void_p,
    "void**": POINTER(ctypes.c_void_p),
    "aclrtContext": ctypes.c_void_p,
    "aclrtContext*": POINTER(ctypes.c_void_p),
    "aclrtStream": ctypes.c_void_p,
    "aclrtStream*": POINTER(ctypes.c_void_p),
    "aclrtDrvMemHandle": ctypes.c_void_p,
    "aclrtDrvMemHandle*": POINTER(ctypes.c_void_p),
    "aclrtMemcpyKind": ctypes.c_int,
    "aclrtMemMallocPolicy": ctypes.c_int,
    "aclrtMemGranularityOptions": ctypes.c_int,
    "aclrtMemHandleType": ctypes.c_int,
    "aclrtMemSharedHandleType": ctypes.c_int,
    "aclrtStreamStatus*": POINTER(ctypes.c_int),
    "aclrtMemLocation*": POINTER(structs.MemLocation),
    "aclrtMemAccessDesc*": POINTER(structs.MemAccessDesc),
    "aclrtMemcpyBatchAttr*": POINTER(structs.MemcpyBatchAttr),
    "aclrtPhysicalMemProp*": POINTER(structs.PhysicalMemProp),
    "const aclrtPhysicalMemProp*": POINTER(structs.PhysicalMemProp),
    "aclrtPtrAttributes*": POINTER(structs.PtrAttributes),
}

TEXTS = {"aclGetRecentErrMsg", "aclrtGetSocName"}

_SIGNATURES: dict[Capability, dict[str, str]] = {
    Capability.CORE: {
        "aclInit": "const char*",
        "aclFinalize": "",
        "aclGetRecentErrMsg": "",
        "aclrtGetVersion": "int32_t*, int32_t*, int32_t*",
        "aclrtGetSocName": "",
        "aclrtGetDeviceCount": "uint32_t*",
        "aclrtSetDevice": "int32_t",
        "aclrtGetDevice": "int32_t*",
        "aclrtResetDevice": "int32_t",
        "aclrtCreateContext": "aclrtContext*, int32_t",
        "aclrtDestroyContext": "aclrtContext",
        "aclrtSetCurrentContext": "aclrtContext",
        "aclrtGetCurrentContext": "aclrtContext*",
    },
    Capability.RESET: {
        "aclFinalizeReference": "uint64_t*",
        "aclrtResetDeviceForce": "int32_t",
    },
    Capability.NUMBERS: {
        "aclrtGetPhyDevIdByLogicDevId": "int32_t, int32_t*",
        "aclrtGetLogicDevIdByUserDevId": "int32_t, int32_t*",
    },
    Capability.PIDS: {
        "aclrtDeviceGetBareTgid": "int32_t*",
    },
    Capability.PEERS: {
        "aclrtDeviceEnablePeerAccess": "int32_t, uint32_t",
    },
    Capability.STREAMS: {
        "aclrtCreateStream": "aclrtStream*",
        "aclrtCreateStreamWithConfig": "aclrtStream*, uint32_t, uint32_t",
        "aclrtDestroyStream": "aclrtStream",
        "aclrtSynchronizeStream": "aclrtStream",
        "aclrtSynchronizeStreamWithTimeout": "aclrtStream, int32_t",
        "aclrtStreamQuery": "aclrtStream, aclrtStreamStatus*",
    },
    Capability.ABORT: {
        "aclrtStreamAbort": "aclrtStream",
        "aclrtDestroyStreamForce": "aclrtStream",
        "aclrtSetStreamFailureMode": "aclrtStream, uint64_t",
    },
    Capability.STOP: {
        "aclrtStreamStop": "aclrtStream",
    },
    Capability.COPIES: {
        "aclrtMemcpy": "void*, size_t, const void*, size_t, aclrtMemcpyKind",
        "aclrtMemcpyAsync": "void*, size_t, const void*, size_t, aclrtMemcpyKind, aclrtStream",
    },
    Capability.BATCHES: {
        "aclrtMemcpyBatchAsync": "void**, size_t*, void**, size_t*, size_t, "
        "aclrtMemcpyBatchAttr*, size_t*, size_t, size_t*, aclrtStream",
    },
    Capability.MEMORY: {
        "aclrtMalloc": "void**, size_t, aclrtMemMallocPolicy",
        "aclrtFree": "void*",
        "aclrtMallocHost": "void**, size_t",
        "aclrtFreeHost": "void*",
    },
    Capability.VIRTUAL: {
        "aclrtMallocPhysical": "aclrtDrvMemHandle*, size_t, const aclrtPhysicalMemProp*, uint64_t",
        "aclrtFreePhysical": "aclrtDrvMemHandle",
        "aclrtReserveMemAddress": "void**, size_t, size_t, void*, uint64_t",
        "aclrtReleaseMemAddress": "void*",
        "aclrtMapMem": "void*, size_t, size_t, aclrtDrvMemHandle, uint64_t",
        "aclrtUnmapMem": "void*",
        "aclrtMemSetAccess": "void*, size_t, aclrtMemAccessDesc*, size_t",
        "aclrtMemGetAccess": "void*, aclrtMemLocation*, uint64_t*",
        "aclrtMemGetAllocationGranularity": (
            "aclrtPhysicalMemProp*, aclrtMemGranularityOptions, size_t*"
        ),
    },
    Capability.HIGH_RESERVE: {
        "aclrtReserveMemAddressNoUCMemory": "void**, size_t, size_t, void*, uint64_t",
    },
    Capability.RETAIN: {
        "aclrtMemRetainAllocationHandle": "void*, aclrtDrvMemHandle*",
        "aclrtMemGetAllocationPropertiesFromHandle": "aclrtDrvMemHandle, aclrtPhysicalMemProp*",
    },
    Capability.RANGES: {
        "aclrtMemGetAddressRange": "void*, void**, size_t*",
    },
    Capability.POINTERS: {
        "aclrtPointerGetAttributes": "const void*, aclrtPtrAttributes*",
    },
    Capability.SHARING_V1: {
        "aclrtMemExportToShareableHandle": (
            "aclrtDrvMemHandle, aclrtMemHandleType, uint64_t, uint64_t*"
        ),
        "aclrtMemImportFromShareableHandle": "uint64_t, int32_t, aclrtDrvMemHandle*",
        "aclrtMemSetPidToShareableHandle": "uint64_t, int32_t*, size_t",
    },
    Capability.SHARING_V2: {
        "aclrtMemExportToShareableHandleV2": (
            "aclrtDrvMemHandle, uint64_t, aclrtMemSharedHandleType, void*"
        ),
        "aclrtMemImportFromShareableHandleV2": (
            "void*, aclrtMemSharedHandleType, uint64_t, aclrtDrvMemHandle*"
        ),
        "aclrtMemSetPidToShareableHandleV2": "void*, aclrtMemSharedHandleType, int32_t*, size_t",
    },
    Capability.IPC_KEYS: {
        "aclrtIpcMemGetExportKey": "void*, size_t, char*, size_t, uint64_t",
        "aclrtIpcMemSetImportPid": "const char*, int32_t*, size_t",
        "aclrtIpcMemImportByKey": "void**, const char*, uint64_t",
        "aclrtIpcMemClose": "const char*",
    },
    Capability.HOST: {
        "aclrtHostRegisterV2": "void*, uint64_t, uint32_t",
        "aclrtHostUnregister": "void*",
        "aclrtHostGetDevicePointer": "void*, void**, uint32_t",
    },
}


def _function(name: str, signature: str, capability: Capability) -> Function:
    arguments = tuple(signature.split(", ")) if signature else ()
    return Function(name, arguments, "const char*" if name in TEXTS else "aclError", capability)


FUNCTIONS: dict[str, Function] = {
    name: _function(name, signature, capability)
    for capability, signatures in _SIGNATURES.items()
    for name, signature in signatures.items()
}
