"""What ACL answers, and what we make of it.

The vendor's classes: 1xxxxx the caller, 2xxxxx resources or no such feature, 5xxxxx the device or
the library itself. A stream reports the failure of an earlier task at a later call, so a code that
is no plain refusal says nothing about the call that returned it; and a timeout there stops nothing.
Whoever aborts and waits for quiet looks at the code itself and promises more.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ...errors import (
    ClosedError,
    DeviceError,
    Error,
    Full,
    NoMemory,
    PeerError,
    RightsError,
    Unsupported,
    UsageError,
)

__all__ = ["MEANINGS", "Code", "Meaning", "translate"]

PREFIX = "ACL_ERROR_"


class Code(IntEnum):
    """aclError: the names of C without ACL_ERROR_."""

    NONE = 0
    INVALID_PARAM = 100000
    UNINITIALIZE = 100001
    REPEAT_INITIALIZE = 100002
    RT_PARAM_INVALID = 107000
    RT_INVALID_DEVICEID = 107001
    RT_CONTEXT_NULL = 107002
    RT_STREAM_CONTEXT = 107003
    RT_ADDR_UNALIGNED = 107008
    RT_INVALID_MEMORY_TYPE = 107016
    RT_INVALID_HANDLE = 107017
    RT_INVALID_MALLOC_TYPE = 107018
    RT_WAIT_TIMEOUT = 107019
    RT_TASK_TIMEOUT = 107020
    RT_DEVICE_TASK_ABORT = 107022
    RT_STREAM_ABORT = 107023
    BAD_ALLOC = 200000
    API_NOT_SUPPORT = 200001
    INVALID_DEVICE = 200002
    MEMORY_ADDRESS_UNALIGNED = 200003
    INVALID_RESOURCE_HANDLE = 200005
    FEATURE_UNSUPPORTED = 200006
    RT_FEATURE_NOT_SUPPORT = 207000
    RT_MEMORY_ALLOCATION = 207001
    RT_NO_DEVICE = 207004
    RT_RESOURCE_ALLOC_FAIL = 207005
    RT_NO_PERMISSION = 207006
    RT_NO_STREAM_RESOURCE = 207008
    RT_OVER_LIMIT = 207012
    RT_DEVICE_OOM = 207018
    RT_TIMEOUT = 207020
    INTERNAL_ERROR = 500000
    FAILURE = 500001
    RT_FAILURE = 500003
    DRV_FAILURE = 500004
    RT_INTERNAL_ERROR = 507000
    RT_STREAM_TASK_FULL = 507002
    RT_LOST_HEARTBEAT = 507010
    RT_SYS_DMA = 507013
    RT_IPC_ERROR = 507022
    RT_STREAM_SYNC_TIMEOUT = 507046
    RT_COPY_DATA = 507052
    RT_DEVICE_MEM_ERROR = 507053
    RT_HBM_MULTI_BIT_ECC_ERROR = 507054
    RT_SUSPECT_DEVICE_MEM_ERROR = 507055
    RT_LINK_ERROR = 507056
    RT_SUSPECT_REMOTE_ERROR = 507057
    RT_DRV_INTERNAL_ERROR = 507899
    HOST_MEMORY_ALREADY_REGISTERED = 507910
    HOST_MEMORY_NOT_REGISTERED = 507911


class Meaning(NamedTuple):
    """What a code is raised as.

    refused  the call did nothing; else what it did, and tasks before it, is unknown
    """

    error: type[Error]
    cause: str
    refused: bool = True


UNKNOWN = Meaning(DeviceError, "acl", refused=False)

MEANINGS: dict[Code, Meaning] = {
    Code.INVALID_PARAM: Meaning(UsageError, "bad_argument"),
    Code.UNINITIALIZE: Meaning(ClosedError, "not_initialised"),
    Code.REPEAT_INITIALIZE: Meaning(UsageError, "already_initialised"),
    Code.RT_PARAM_INVALID: Meaning(UsageError, "bad_argument"),
    Code.RT_INVALID_DEVICEID: Meaning(UsageError, "bad_device"),
    Code.RT_CONTEXT_NULL: Meaning(UsageError, "no_context"),
    Code.RT_STREAM_CONTEXT: Meaning(UsageError, "other_context"),
    Code.RT_ADDR_UNALIGNED: Meaning(UsageError, "unaligned"),
    Code.RT_INVALID_MEMORY_TYPE: Meaning(UsageError, "bad_argument"),
    Code.RT_INVALID_HANDLE: Meaning(UsageError, "bad_handle"),
    Code.RT_INVALID_MALLOC_TYPE: Meaning(UsageError, "bad_argument"),
    Code.RT_WAIT_TIMEOUT: Meaning(DeviceError, "timeout", refused=False),
    Code.RT_TASK_TIMEOUT: Meaning(DeviceError, "timeout", refused=False),
    Code.RT_DEVICE_TASK_ABORT: Meaning(DeviceError, "aborted", refused=False),
    Code.RT_STREAM_ABORT: Meaning(DeviceError, "aborted", refused=False),
    Code.BAD_ALLOC: Meaning(NoMemory, "no_memory"),
    Code.API_NOT_SUPPORT: Meaning(Unsupported, "not_supported"),
    Code.INVALID_DEVICE: Meaning(UsageError, "bad_device"),
    Code.MEMORY_ADDRESS_UNALIGNED: Meaning(UsageError, "unaligned"),
    Code.INVALID_RESOURCE_HANDLE: Meaning(UsageError, "bad_handle"),
    Code.FEATURE_UNSUPPORTED: Meaning(Unsupported, "not_supported"),
    Code.RT_FEATURE_NOT_SUPPORT: Meaning(Unsupported, "not_supported"),
    Code.RT_MEMORY_ALLOCATION: Meaning(NoMemory, "no_memory"),
    Code.RT_NO_DEVICE: Meaning(Unsupported, "no_device"),
    Code.RT_RESOURCE_ALLOC_FAIL: Meaning(Full, "no_resource"),
    Code.RT_NO_PERMISSION: Meaning(RightsError, "no_permission"),
    Code.RT_NO_STREAM_RESOURCE: Meaning(Full, "no_stream"),
    Code.RT_OVER_LIMIT: Meaning(Full, "over_limit"),
    Code.RT_DEVICE_OOM: Meaning(NoMemory, "no_memory"),
    Code.RT_TIMEOUT: Meaning(DeviceError, "timeout", refused=False),
    Code.INTERNAL_ERROR: UNKNOWN,
    Code.FAILURE: UNKNOWN,
    Code.RT_FAILURE: UNKNOWN,
    Code.DRV_FAILURE: UNKNOWN,
    Code.RT_INTERNAL_ERROR: UNKNOWN,
    Code.RT_STREAM_TASK_FULL: Meaning(Full, "stream_full"),
    Code.RT_LOST_HEARTBEAT: Meaning(DeviceError, "device_silent", refused=False),
    Code.RT_SYS_DMA: Meaning(DeviceError, "dma", refused=False),
    Code.RT_IPC_ERROR: Meaning(DeviceError, "ipc", refused=False),
    Code.RT_STREAM_SYNC_TIMEOUT: Meaning(DeviceError, "timeout", refused=False),
    Code.RT_COPY_DATA: Meaning(DeviceError, "dma", refused=False),
    Code.RT_DEVICE_MEM_ERROR: Meaning(DeviceError, "device_memory", refused=False),
    Code.RT_HBM_MULTI_BIT_ECC_ERROR: Meaning(DeviceError, "device_memory", refused=False),
    Code.RT_SUSPECT_DEVICE_MEM_ERROR: Meaning(DeviceError, "device_memory", refused=False),
    Code.RT_LINK_ERROR: Meaning(PeerError, "fabric_link", refused=False),
    Code.RT_SUSPECT_REMOTE_ERROR: Meaning(PeerError, "fabric_remote", refused=False),
    Code.RT_DRV_INTERNAL_ERROR: UNKNOWN,
    Code.HOST_MEMORY_ALREADY_REGISTERED: Meaning(UsageError, "already_registered"),
    Code.HOST_MEMORY_NOT_REGISTERED: Meaning(UsageError, "not_registered"),
}


def translate(function: str, code: int, text: str | None) -> Error:
    """The error for a code other than 0 that `function` returned.

    text  what aclGetRecentErrMsg said; its first line goes into the message, all of it into
          `detail`
    """
    known = code in MEANINGS
    meaning = MEANINGS[Code(code)] if known else UNKNOWN
    name = f"{PREFIX}{Code(code).name}" if known else "a code unknown here"
    first = text.strip().partition("\n")[0] if text else ""
    return meaning.error(
        f"{function} returned {code}, {name}" + (f": {first}" if first else ""),
        cause=meaning.cause,
        bytes_moved=0 if meaning.refused else None,
        safe_to_retry=meaning.refused,
        code=code,
        detail=text,
    )
