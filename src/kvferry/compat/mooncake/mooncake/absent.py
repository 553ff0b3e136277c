"""Names of the module that mean nothing without hardware, or nothing on a host alone."""

from __future__ import annotations

from typing import NoReturn

__all__ = [
    "CoroRPCInterface",
    "ReceivedData",
    "ReceivedTensor",
    "RpcInterface",
    "SharedSegment",
    "create_rpc_client",
    "create_rpc_server",
    "refuse",
]

RPC = "a tensor RPC (use mooncake.engine.TransferEngine, or an RPC library)"


def refuse(what: str, missing: str) -> NoReturn:
    raise NotImplementedError(f"{what} needs {missing}, which kvferry does not have")


class SharedSegment:
    """Device memory that several ranks map."""

    def __init__(self) -> None:
        refuse("SharedSegment", "device memory that can be mapped across ranks")

    @staticmethod
    def supported() -> bool:
        return False

    @classmethod
    def create(cls, *args: object, **kwargs: object) -> NoReturn:
        refuse("SharedSegment.create", "device memory that can be mapped across ranks")


class RpcInterface:
    """Calls that carry tensors."""

    def __init__(self) -> None:
        refuse(type(self).__name__, RPC)


class ReceivedData(RpcInterface):
    """What such a call brings."""


class ReceivedTensor(RpcInterface):
    """What such a call brings."""


CoroRPCInterface = RpcInterface


def create_rpc_client(*args: object, **kwargs: object) -> NoReturn:
    refuse("create_rpc_client", RPC)


def create_rpc_server(*args: object, **kwargs: object) -> NoReturn:
    refuse("create_rpc_server", RPC)
