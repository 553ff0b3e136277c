"""Enumerations and flags of ACL. A member's name in C is the prefix of its class and its own name.

Values that ACL returns are kept as plain numbers: a newer library may know more of them.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "PREFIXES",
    "FailureMode",
    "HostRegister",
    "IpcExport",
    "IpcImport",
    "MemAccessFlags",
    "MemAllocationType",
    "MemAttr",
    "MemGranularityOptions",
    "MemHandleType",
    "MemLocationType",
    "MemMallocPolicy",
    "MemPgType",
    "MemSharedHandleType",
    "MemcpyKind",
    "StreamCreation",
    "StreamStatus",
    "VmmExport",
]


class MemcpyKind(IntEnum):
    """Between what a copy runs. HOST_TO_HOST is refused by aclrtMemcpyAsync on PCIe cards."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4
    HOST_TO_BUF_TO_DEVICE = 5
    INNER_DEVICE_TO_DEVICE = 6
    INTER_DEVICE_TO_DEVICE = 7


class MemAttr(IntEnum):
    """Kind of memory and size of its pages; without DDR or HBM the location decides."""

    DDR_MEM = 0
    HBM_MEM = 1
    DDR_MEM_HUGE = 2
    DDR_MEM_NORMAL = 3
    HBM_MEM_HUGE = 4
    HBM_MEM_NORMAL = 5
    DDR_MEM_P2P_HUGE = 6
    DDR_MEM_P2P_NORMAL = 7
    HBM_MEM_P2P_HUGE = 8
    HBM_MEM_P2P_NORMAL = 9
    HBM_MEM_HUGE1G = 10
    HBM_MEM_P2P_HUGE1G = 11
    MEM_NORMAL = 12
    MEM_HUGE = 13
    MEM_HUGE1G = 14
    MEM_P2P_NORMAL = 15
    MEM_P2P_HUGE = 16
    MEM_P2P_HUGE1G = 17


class MemLocationType(IntEnum):
    """Where memory lies. HOST_NUMA: `id` of the location is a NUMA node."""

    HOST = 0
    DEVICE = 1
    UNREGISTERED = 2
    HOST_NUMA = 4


class MemAllocationType(IntEnum):
    PINNED = 0


class MemHandleType(IntEnum):
    NONE = 0
    POSIX = 2


class MemSharedHandleType(IntEnum):
    """DEFAULT handles are 8 bytes, for one server; FABRIC handles 128, also across servers."""

    DEFAULT = 1
    FABRIC = 2


class MemGranularityOptions(IntEnum):
    MINIMUM = 0
    RECOMMENDED = 1
    UNDEF = 0xFFFF


class MemAccessFlags(IntEnum):
    NONE = 0
    READ = 1
    READWRITE = 3


class MemMallocPolicy(IntEnum):
    HUGE_FIRST = 0
    HUGE_ONLY = 1
    NORMAL_ONLY = 2
    HUGE_FIRST_P2P = 3
    HUGE_ONLY_P2P = 4
    NORMAL_ONLY_P2P = 5
    HUGE1G_ONLY = 6
    HUGE1G_ONLY_P2P = 7


class MemPgType(IntEnum):
    """Pages of a reservation: the flags of aclrtReserveMemAddressNoUCMemory."""

    NORMAL_PAGE_TYPE = 0
    HUGE_PAGE_TYPE = 1
    HUGE1G_PAGE_TYPE = 2


class StreamStatus(IntEnum):
    COMPLETE = 0
    NOT_READY = 1
    RESERVED = 0xFFFF


class StreamCreation(IntFlag):
    FAST_LAUNCH = 0x1
    FAST_SYNC = 0x2
    PERSISTENT = 0x4
    HUGE = 0x8
    CPU_SCHEDULE = 0x10
    DEVICE_USE_ONLY = 0x20


class FailureMode(IntEnum):
    """What a stream does after a task failed. STOP holds for its whole context, for good."""

    CONTINUE_ON_FAILURE = 0
    STOP_ON_FAILURE = 1


class VmmExport(IntFlag):
    """DEFAULT keeps a list of the processes that may import; it cannot be had back later."""

    DEFAULT = 0
    DISABLE_PID_VALIDATION = 1


class IpcExport(IntFlag):
    DEFAULT = 0
    DISABLE_PID_VALIDATION = 1


class IpcImport(IntFlag):
    DEFAULT = 0
    ENABLE_PEER_ACCESS = 1


class HostRegister(IntFlag):
    MAPPED = 0x2
    IOMEMORY = 0x4
    READONLY = 0x8
    PINNED = 0x10000000


PREFIXES: dict[type[IntEnum] | type[IntFlag], str] = {
    MemcpyKind: "ACL_MEMCPY_",
    MemAttr: "ACL_",
    MemLocationType: "ACL_MEM_LOCATION_TYPE_",
    MemAllocationType: "ACL_MEM_ALLOCATION_TYPE_",
    MemHandleType: "ACL_MEM_HANDLE_TYPE_",
    MemSharedHandleType: "ACL_MEM_SHARE_HANDLE_TYPE_",
    MemGranularityOptions: "ACL_RT_MEM_ALLOC_GRANULARITY_",
    MemAccessFlags: "ACL_RT_MEM_ACCESS_FLAGS_",
    MemMallocPolicy: "ACL_MEM_MALLOC_",
    MemPgType: "",
    StreamStatus: "ACL_STREAM_STATUS_",
    StreamCreation: "ACL_STREAM_",
    FailureMode: "ACL_",
    VmmExport: "ACL_RT_VMM_EXPORT_FLAG_",
    IpcExport: "ACL_RT_IPC_MEM_EXPORT_FLAG_",
    IpcImport: "ACL_RT_IPC_MEM_IMPORT_FLAG_",
    HostRegister: "ACL_HOST_REG_",
}
