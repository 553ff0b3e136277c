"""How a transfer ends that does not succeed."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from .. import _core, log
from ..errors import DeviceError, Error, PeerError, Timeout, UsageError
from ..memory import withdrawn
from ..path import SubmitterKind

if TYPE_CHECKING:
    from .transfer import Transfer

__all__ = ["Failure", "Status", "timed_out"]

logger = log.get("kvferry.engine")

LINK_LOST = "the link to the peer broke"


class Status(Enum):
    """Where a transfer stands. All but PENDING are final.

    DONE     every byte is visible at the destination, in the memory of the peer's epoch
    FAILED   nothing more will be written on either side; what was written is unspecified
    UNKNOWN  the peer is gone or silent: local memory is quiet, the remote side cannot be known
    """

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Failure:
    """How a transfer ended that did not succeed: an error somebody should look at."""

    __slots__ = ("_error", "_seen", "status")

    def __init__(self, status: Status, error: Error) -> None:
        self.status = status
        self._error = error
        self._seen = False

    @classmethod
    def of(cls, transfer: Transfer, gone: bool) -> Failure:
        """Judge a quiet transfer that did not land."""
        outcome = transfer.done.outcome
        if outcome == _core.REFUSED:
            return cls(Status.FAILED, _refused(transfer))
        if outcome == _core.LOST and (why := _loss(transfer)) is not None:
            return cls(Status.UNKNOWN, _unspecified(why, safe_to_retry=False))
        if gone or outcome in (_core.OK, _core.LOST):
            return cls(Status.UNKNOWN, _unknown(transfer, gone or outcome == _core.OK))
        if outcome == _core.FAULT:
            return cls(Status.FAILED, _fault(transfer))
        if outcome == _core.DEVICE:
            error = _device(transfer)
            return cls(Status.UNKNOWN if _says_nothing(error) else Status.FAILED, error)
        if outcome == _core.EXPIRED or transfer.why is None:
            return cls(Status.FAILED, _measured(timed_out(_peer(transfer)), transfer))
        error = _unspecified(transfer.why, transfer.why.safe_to_retry)
        return cls(Status.FAILED, _measured(error, transfer))

    def look(self) -> Error:
        """The error, to be raised."""
        self._seen = True
        return self._error.again()

    def dismiss(self) -> None:
        """Nobody needs to look: it is known, or another thread judged first."""
        self._seen = True

    def __del__(self) -> None:
        if not self._seen:
            logger.warning("nobody looked at the failure of a transfer: %s", self._error)


def timed_out(peer: str) -> Timeout:
    return Timeout("the transfer took too long", cause="timeout", peer=peer, bytes_moved=None)


def _peer(transfer: Transfer) -> str:
    return transfer.channel.peer


def _refused(transfer: Transfer) -> Error:
    channel = transfer.channel
    error = channel.late_refusal(transfer)
    unfolded = channel.path_of(transfer.d).submitter is SubmitterKind.COPROCESSOR
    # What the peer does not know it had announced when the batch was submitted.
    return withdrawn(error) if error.cause == "not_registered" and not unfolded else error


def _loss(transfer: Transfer) -> Error | None:
    """Why the way broke: since we asked for it, or as a link knows that leaves no code."""
    met = None if transfer.done.code else transfer.channel.device_error(transfer)
    return transfer.why or met


def _unspecified(why: Error, safe_to_retry: bool) -> Error:
    error = why.again()
    error.bytes_moved = None
    error.safe_to_retry = safe_to_retry
    return error


def _device(transfer: Transfer) -> Error:
    """What a device's library said, here or at the peer. Its streams were aborted."""
    channel, code = transfer.channel, transfer.done.code
    error = channel.device_error(transfer) or DeviceError(
        f"a device's library failed with {code}" if code else "a device left out a copy",
        cause="device",
        code=code or None,
    )
    error.peer, error.bytes_moved, error.safe_to_retry = channel.peer, None, False
    return error


def _says_nothing(error: Error) -> bool:
    """Does it leave open what reached the peer?"""
    return isinstance(error, PeerError) or error.cause == "device_silent"


def _measured(error: Error, transfer: Transfer) -> Error:
    """A timeout says how long the transfer had, and how much of it may have moved."""
    if isinstance(error, Timeout):
        spent = transfer.done.elapsed_ns / 1e9
        amount = f"any of its {transfer.d.bytes} bytes may have moved"
        error.args = (f"{error.args[0]}: stopped after {spent:.3f} s, {amount}",)
    return error


def _unknown(transfer: Transfer, gone: bool) -> PeerError:
    what = "reached it" if transfer.op == _core.WRITE else "was read from it"
    return PeerError(
        f"{'the peer is gone' if gone else LINK_LOST}; what {what} is unknown",
        cause="peer_gone" if gone else "link_lost",
        peer=_peer(transfer),
        bytes_moved=None,
        safe_to_retry=False,
        code=transfer.done.code or None,
    )


def _fault(transfer: Transfer) -> UsageError:
    return UsageError(
        "the kernel does not reach the memory: unmapped here or there, or not to be touched",
        cause="fault",
        peer=_peer(transfer),
        bytes_moved=None,
    )
