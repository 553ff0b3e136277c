"""The module that programs import: TransferEngine, and what goes with it."""

from __future__ import annotations

from .absent import (
    CoroRPCInterface,
    ReceivedData,
    ReceivedTensor,
    RpcInterface,
    SharedSegment,
    create_rpc_client,
    create_rpc_server,
)
from .inner import InnerTransferEngine
from .transfer_engine import TransferEngine
from .values import TransferNotify, TransferOpcode

__all__ = [
    "SUPPORT_CUDA",
    "SUPPORT_EFA",
    "SUPPORT_HIP",
    "SUPPORT_INTRA_NVLINK",
    "SUPPORT_MNNVL",
    "SUPPORT_MUSA",
    "CoroRPCInterface",
    "InnerTransferEngine",
    "Read",
    "ReceivedData",
    "ReceivedTensor",
    "RpcInterface",
    "SharedSegment",
    "TransferEngine",
    "TransferNotify",
    "TransferOpcode",
    "Write",
    "create_rpc_client",
    "create_rpc_server",
]

SUPPORT_CUDA = SUPPORT_EFA = SUPPORT_HIP = False
SUPPORT_INTRA_NVLINK = SUPPORT_MNNVL = SUPPORT_MUSA = False
Read, Write = TransferOpcode.Read, TransferOpcode.Write
