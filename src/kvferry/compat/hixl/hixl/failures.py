"""How a failure becomes a status code: one table, used at the edge of the interface only."""

from __future__ import annotations

import logging

import kvferry as kf

from . import codes

__all__ = ["LOSES_THE_CHANNEL", "Refused", "status_of", "tell"]

logger = logging.getLogger("hixl")


class Refused(Exception):
    """A call ends with this status; the text is for the log."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


# What a stable cause means, whatever the error it comes with.
_CAUSES = {
    "address_in_use": codes.FAILED,
    "fault": codes.FAILED,
    "no_slot": codes.FAILED,  # not RESOURCE_EXHAUSTED: what HIXL says when no stream is free
    "revoked": codes.FAILED,
    "stale_region": codes.PARAM_INVALID,
    "token": codes.FAILED,
}

# First match counts, so an error stands above those it derives from.
_KINDS: tuple[tuple[type[Exception], int], ...] = (
    (kf.ForkedError, codes.FAILED),
    (kf.ClosedError, codes.NOT_CONNECTED),
    (kf.UsageError, codes.PARAM_INVALID),
    (kf.RightsError, codes.PARAM_INVALID),
    (kf.PathRefused, codes.UNSUPPORTED),
    (kf.Unsupported, codes.UNSUPPORTED),
    (kf.Timeout, codes.TIMEOUT),
    (kf.NoMemory, codes.RESOURCE_EXHAUSTED),
    (kf.Full, codes.RESOURCE_EXHAUSTED),
    (MemoryError, codes.RESOURCE_EXHAUSTED),
)

# After one of these a channel is of no use to a program that lets it be made anew.
LOSES_THE_CHANNEL = (kf.PeerError, kf.Timeout, kf.ClosedError, kf.Cancelled)


def status_of(error: Exception) -> int:
    """The status that a call ends with when `error` was raised in it."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, kf.Error) and error.cause in _CAUSES:
        return _CAUSES[error.cause]
    return next((status for kind, status in _KINDS if isinstance(error, kind)), codes.FAILED)


def tell(verb: str, error: Exception) -> int:
    """The status of a call that failed; its cause goes to the log."""
    status = status_of(error)
    foreseen = isinstance(error, (Refused, kf.Error, MemoryError))
    where = None if foreseen else error
    logger.error("%s: %s: %s", verb, codes.NAMES[status], error, exc_info=where)
    return status
