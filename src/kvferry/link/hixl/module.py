"""The vendor's `hixl` module: what of it is used, whether that is there, what its statuses mean.

Its calls return a status, alone or before what was asked for, and raise for a wrong type only.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from ...errors import Error, Full, PeerError, Unsupported, UsageError

__all__ = ["Code", "Hixl", "Module", "broken", "load", "meaning", "translate"]

NAME = "hixl"


class Hixl(Protocol):
    """One engine of the vendor's. Handles and requests are numbers."""

    def initialize(self, local_engine: str, options: dict[str, str]) -> int: ...
    def finalize(self) -> None: ...
    def register_mem(self, desc: Any, kind: Any) -> tuple[int, int]: ...
    def deregister_mem(self, handle: int) -> int: ...
    def connect(self, remote_engine: str, timeout_in_millis: int) -> int: ...
    def disconnect(self, remote_engine: str, timeout_in_millis: int) -> int: ...
    def transfer_async(
        self, remote_engine: str, op: Any, op_descs: Sequence[Any]
    ) -> tuple[int, int]: ...
    def get_transfer_status(self, request: int) -> tuple[int, Any]: ...


Module = Any  # whatever is installed under that name; `load` has looked at it

# Enumerations are used by their scoped names, which every version exports.
USED = (
    "Hixl.initialize",
    "Hixl.finalize",
    "Hixl.register_mem",
    "Hixl.deregister_mem",
    "Hixl.connect",
    "Hixl.disconnect",
    "Hixl.transfer_async",
    "Hixl.get_transfer_status",
    "MemDesc",
    "MemType.MEM_DEVICE",
    "MemType.MEM_HOST",
    "TransferOp.READ",
    "TransferOp.WRITE",
    "TransferOpDesc",
    "TransferStatus.WAITING",
    "TransferStatus.COMPLETED",
)


def load(name: str = NAME) -> Module:
    """Import the module. Raises Unsupported: it is not there, or lacks what is used here."""
    try:
        module = importlib.import_module(name)
    except Exception as error:  # a native module fails in ways of its own
        raise Unsupported(
            f"the module {name} cannot be imported: {error}", cause="no_module"
        ) from error
    missing = [each for each in USED if not _has(module, each)]
    if missing:
        raise Unsupported(
            f"the module {name} is of a version that is not known here: it has no "
            f"{', '.join(missing)}",
            cause="module_version",
        )
    return module


def _has(module: Module, dotted: str) -> bool:
    try:
        attrgetter(dotted)(module)
    except AttributeError:
        return False
    return True


class Code(IntEnum):
    """What calls return."""

    SUCCESS = 0
    PARAM_INVALID = 103900
    TIMEOUT = 103901
    NOT_CONNECTED = 103902
    ALREADY_CONNECTED = 103903
    NOTIFY_FAILED = 103904
    UNSUPPORTED = 103905
    RESOURCE_EXHAUSTED = 203900
    FAILED = 503900


class Meaning(NamedTuple):
    """What a status is raised as.

    refused  the call did nothing, and the connection is as it was; else both are unknown
    """

    error: type[Error]
    cause: str
    refused: bool = True


UNKNOWN = Meaning(PeerError, "hixl", refused=False)

# TIMEOUT and FAILED are what the vendor calls not recoverable. Without a connection nothing moves,
# but what others had under way over it does not come back either.
MEANINGS: dict[int, Meaning] = {
    Code.PARAM_INVALID: Meaning(UsageError, "bad_argument"),
    Code.TIMEOUT: Meaning(PeerError, "hixl_timeout", refused=False),
    Code.NOT_CONNECTED: Meaning(PeerError, "not_connected", refused=False),
    Code.ALREADY_CONNECTED: Meaning(UsageError, "already_connected"),
    Code.NOTIFY_FAILED: Meaning(PeerError, "notify_failed"),
    Code.UNSUPPORTED: Meaning(Unsupported, "not_supported"),
    Code.RESOURCE_EXHAUSTED: Meaning(Full, "no_resource"),
    Code.FAILED: Meaning(PeerError, "hixl_failed", refused=False),
}


def meaning(code: int) -> Meaning:
    return MEANINGS.get(code, UNKNOWN)


def translate(what: str, code: int, peer: str | None = None) -> Error:
    """The error for a status other than SUCCESS that ended `what`; it keeps the number."""
    found = meaning(code)
    return found.error(
        _said(what, code),
        cause=found.cause,
        peer=peer,
        bytes_moved=0 if found.refused else None,
        safe_to_retry=found.refused,
        code=code,
    )


def broken(what: str, code: int, peer: str) -> PeerError:
    """As translate, where nobody knows what was moved, whatever the status."""
    return PeerError(
        _said(what, code),
        cause=meaning(code).cause,
        peer=peer,
        bytes_moved=None,
        safe_to_retry=False,
        code=code,
    )


def _said(what: str, code: int) -> str:
    name = Code(code).name if code in MEANINGS else "a status unknown here"
    return f"{what} ended with {code}, {name}"
