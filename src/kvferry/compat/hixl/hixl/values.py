"""What callers pass and get. Fields check their types as the extension module does that this one
stands for: a wrong type is a TypeError, whatever else is wrong is a status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from .codes import TransferStatus

__all__ = [
    "GetTransferStatusArgs",
    "MemDesc",
    "NotifyDesc",
    "TransferArgs",
    "TransferOpDesc",
    "TransferResult",
    "integer",
    "kind",
]

T = TypeVar("T")
Check = Callable[[str, Any], Any]


def kind(wanted: type[T]) -> Callable[[str, object], T]:
    """A check that a value is a `wanted`."""

    def check(name: str, value: object) -> T:
        if not isinstance(value, wanted):
            raise TypeError(f"{name} is a {wanted.__name__}, not {type(value).__name__}")
        return value

    return check


def integer(bits: int, signed: bool = False) -> Callable[[str, object], int]:
    """A check that a value is an integer of so many bits."""
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - signed)) - 1

    def check(name: str, value: object) -> int:
        if not hasattr(value, "__index__"):
            raise TypeError(f"{name} is an integer, not {type(value).__name__}")
        number: int = value.__index__()
        if not low <= number <= high:
            raise TypeError(f"{name} is {number}, not an integer from {low} to {high}")
        return number

    return check


_size = integer(64)
_text = kind(str)


class _Value:
    """Checks every field whenever it is set."""

    __slots__ = ()
    _fields: ClassVar[Mapping[str, Check]] = {}

    def __setattr__(self, name: str, value: object) -> None:
        check = self._fields.get(name)
        if check is None:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        super().__setattr__(name, check(name, value))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({inside})"


class MemDesc(_Value):
    """`len` bytes of this process's memory at `addr`."""

    __slots__ = ("addr", "len")
    _fields: ClassVar[Mapping[str, Check]] = {"addr": _size, "len": _size}

    addr: int
    len: int

    def __init__(self, addr: int, len: int) -> None:
        self.addr = addr
        self.len = len


class TransferOpDesc(_Value):
    """`len` bytes between `local_addr` here and `remote_addr` as the peer sees it."""

    __slots__ = ("len", "local_addr", "remote_addr")
    _fields: ClassVar[Mapping[str, Check]] = {
        "local_addr": _size,
        "remote_addr": _size,
        "len": _size,
    }

    local_addr: int
    remote_addr: int
    len: int

    def __init__(self, local_addr: int, remote_addr: int, len: int) -> None:
        self.local_addr = local_addr
        self.remote_addr = remote_addr
        self.len = len


class TransferArgs(_Value):
    """`user_data` is a number that comes back with the result."""

    __slots__ = ("user_data",)
    _fields: ClassVar[Mapping[str, Check]] = {"user_data": _size}

    user_data: int

    def __init__(self) -> None:
        self.user_data = 0


class GetTransferStatusArgs(_Value):
    """How many results are wanted at most, and whether those still waiting are left out."""

    __slots__ = ("max_query_count", "skip_waiting")
    _fields: ClassVar[Mapping[str, Check]] = {
        "max_query_count": integer(32),
        "skip_waiting": kind(bool),
    }

    max_query_count: int
    skip_waiting: bool

    def __init__(self, max_query_count: int = (1 << 32) - 1, skip_waiting: bool = False) -> None:
        self.max_query_count = max_query_count
        self.skip_waiting = skip_waiting


class TransferResult(_Value):
    """Where one request stands, and the `user_data` it was made with."""

    __slots__ = ("_status", "req", "user_data")
    _fields: ClassVar[Mapping[str, Check]] = {
        "req": _size,
        "user_data": _size,
        "_status": kind(TransferStatus),
    }

    req: int
    user_data: int
    _status: TransferStatus

    def __init__(self) -> None:
        self.req = 0
        self.user_data = 0
        self._status = TransferStatus.WAITING

    @classmethod
    def of(cls, req: int, user_data: int, status: TransferStatus) -> TransferResult:
        result = cls()
        result.req, result.user_data, result._status = req, user_data, status
        return result

    @property
    def status(self) -> TransferStatus:
        return self._status


class NotifyDesc(_Value):
    """A message and its name, 1,024 characters each at most when it is sent."""

    __slots__ = ("name", "notify_msg")
    _fields: ClassVar[Mapping[str, Check]] = {"name": _text, "notify_msg": _text}

    name: str
    notify_msg: str

    def __init__(self, name: str, notify_msg: str) -> None:
        self.name = name
        self.notify_msg = notify_msg
