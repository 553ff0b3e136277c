"""The numbers and names of HIXL's interface: status codes, enumerations, keys of options."""

from __future__ import annotations

from enum import IntEnum

# ---- what every call returns ----

SUCCESS = 0
PARAM_INVALID = 103900
TIMEOUT = 103901
NOT_CONNECTED = 103902
ALREADY_CONNECTED = 103903
NOTIFY_FAILED = 103904  # reserved
UNSUPPORTED = 103905
RESOURCE_EXHAUSTED = 203900
FAILED = 503900

NAMES = {
    SUCCESS: "SUCCESS",
    PARAM_INVALID: "PARAM_INVALID",
    TIMEOUT: "TIMEOUT",
    NOT_CONNECTED: "NOT_CONNECTED",
    ALREADY_CONNECTED: "ALREADY_CONNECTED",
    NOTIFY_FAILED: "NOTIFY_FAILED",
    UNSUPPORTED: "UNSUPPORTED",
    RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
    FAILED: "FAILED",
}


class MemType(IntEnum):
    """Where memory lies. There is no device here: MEM_DEVICE is refused as UNSUPPORTED."""

    MEM_DEVICE = 0
    MEM_HOST = 1


class TransferOp(IntEnum):
    """READ fills local memory, WRITE fills the peer's."""

    READ = 0
    WRITE = 1


class TransferStatus(IntEnum):
    """Where an asynchronous transfer stands. TIMEOUT is never reported: its caller decides."""

    WAITING = 0
    COMPLETED = 1
    TIMEOUT = 2
    FAILED = 3


class AsyncConnectStatus(IntEnum):
    """What became of the task that was submitted last for a peer."""

    NOT_CONNECT = 0
    CONNECT_PENDING = 1
    CONNECTING = 2
    CONNECTED = 3
    CONNECT_FAILED = 4
    DISCONNECT_PENDING = 5
    DISCONNECTING = 6


class FeatureType(IntEnum):
    """What can be asked for with get_capability."""

    AUTO_CONNECT = 0
    CLIENT_SERVER_COMM = 1


FEATURE_NOT_SUPPORTED = 0
FEATURE_SUPPORTED = 1

MEM_DEVICE, MEM_HOST = MemType
READ, WRITE = TransferOp
(
    NOT_CONNECT,
    CONNECT_PENDING,
    CONNECTING,
    CONNECTED,
    CONNECT_FAILED,
    DISCONNECT_PENDING,
    DISCONNECTING,
) = AsyncConnectStatus
AUTO_CONNECT, CLIENT_SERVER_COMM = FeatureType

# ---- keys of what initialize is told ----

OPTION_ENABLE_USE_FABRIC_MEM = "EnableUseFabricMem"
OPTION_RDMA_TRAFFIC_CLASS = "RdmaTrafficClass"
OPTION_RDMA_SERVICE_LEVEL = "RdmaServiceLevel"
OPTION_BUFFER_POOL = "BufferPool"
OPTION_GLOBAL_RESOURCE_CONFIG = "GlobalResourceConfig"
OPTION_AUTO_CONNECT = "AutoConnect"
OPTION_LOCAL_COMM_RES = "LocalCommRes"
