"""Two threads at once where only one may be: an error, instead of numbers that are wrong later."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

from ..errors import UsageError

__all__ = ["OneThread", "one_thread"]

Verb = TypeVar("Verb", bound=Callable[..., Any])


class OneThread:
    """Used by one thread at a time, and not always the same."""

    def __init__(self) -> None:
        self._turn = RLock()  # of one call; those inside it are of the same thread


def one_thread(verb: Verb) -> Verb:
    """A method of OneThread: raises UsageError (threads) while another thread is inside."""

    @wraps(verb)
    def alone(self: OneThread, *args: Any, **named: Any) -> Any:
        if not self._turn.acquire(blocking=False):
            raise UsageError(f"two threads at once in {type(self).__name__}", cause="threads")
        try:
            return verb(self, *args, **named)
        finally:
            self._turn.release()

    return cast(Verb, alone)
