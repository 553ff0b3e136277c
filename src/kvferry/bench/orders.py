"""What is said between this process and an initiator of its own: a JSON value a line."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .cases import Case
from .shares import Share

__all__ = [
    "Answer",
    "Check",
    "Connect",
    "Go",
    "Load",
    "Order",
    "Prepare",
    "Prepared",
    "Start",
    "What",
    "decode",
    "encode",
]

T = TypeVar("T")


class What(str, Enum):
    """Which pass is next: one of the case, of its limit, or of the case and to be checked."""

    CASE = "case"
    LIMIT = "limit"
    CHECKED = "checked"


class Start(msgspec.Struct, frozen=True):
    """The first line: whom to connect to, and for what.

    address, pid  of the target
    size          of the initiator's region, in bytes
    """

    address: str
    pid: int
    token: bytes
    size: int
    share: Share


class Connect(msgspec.Struct, frozen=True, tag=True):
    case: Case


class Prepare(msgspec.Struct, frozen=True, tag=True):
    case: Case


class Load(msgspec.Struct, frozen=True, tag=True):
    what: What


class Go(msgspec.Struct, frozen=True, tag=True):
    """at  nanoseconds of the monotonic clock"""

    at: int


class Check(msgspec.Struct, frozen=True, tag=True):
    pass


Order = Connect | Prepare | Load | Go | Check


class Answer(msgspec.Struct, frozen=True):
    """value  what the order asks for, encoded
    error  why there is none
    """

    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None


class Prepared(msgspec.Struct, frozen=True):
    """path     that the channel took
    threads  that copy
    limit    name of the yardstick, variant: of it
    """

    path: str
    threads: int
    limit: str
    variant: str


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def decode(line: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(line, type=kind, dec_hook=_from_text)


def _from_text(kind: type, text: Any) -> Any:
    if kind is not Path:
        raise NotImplementedError(f"no {kind.__name__} is sent")
    return Path(text)
