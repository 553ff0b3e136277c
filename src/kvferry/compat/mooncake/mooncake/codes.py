"""Return codes, and the errors they stand for. The cause of a failure goes to the log."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from kvferry.errors import Error, NotQuiet

__all__ = [
    "ADDRESS_NOT_REGISTERED",
    "ADDRESS_OVERLAPPED",
    "DNS",
    "INVALID_ARGUMENT",
    "OK",
    "SOCKET",
    "code_of",
    "coded",
    "tell",
]

logger = logging.getLogger("mooncake")

OK = 0
INVALID_ARGUMENT = -1
ADDRESS_NOT_REGISTERED = -3
ADDRESS_OVERLAPPED = -7
DNS = -101
SOCKET = -102

# By the cause of our error. What is not named here has the code of the method that failed.
_CODES = {
    "overlap": ADDRESS_OVERLAPPED,
    "name_taken": ADDRESS_OVERLAPPED,
    "unknown_address": ADDRESS_NOT_REGISTERED,
}

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")


def coded(
    failure: R,
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """A method that returns `failure` where it would raise an error of ours or of the system."""

    def wrap(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @functools.wraps(method)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return method(self, *args, **kwargs)
            except (Error, OSError) as error:
                tell(method.__name__, error)
                return failure

        return call

    return wrap


def code_of(error: Error) -> int:
    """For methods that tell failures apart."""
    return _CODES.get(error.cause, INVALID_ARGUMENT)


def tell(what: str, error: Exception) -> None:
    """Log a failure whose caller gets a number.

    As text: a handler that keeps records must not keep what the traceback refers to.
    """
    if isinstance(error, NotQuiet):
        logger.critical("%s: DO NOT REUSE THE BUFFERS, they may still change: %s", what, str(error))
    else:
        logger.error("%s: %s", what, str(error))
