"""Keys, as callers give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ... import _core
from ...errors import UsageError
from ..answers import Digests
from ..table import Ints
from .found import Key

__all__ = ["asked", "blame", "digests_of", "same", "spans"]

R = TypeVar("R")


def asked(ask: Callable[..., R], keys: Sequence[Key], *more: Any) -> R:
    """What is answered about these keys. Raises UsageError unless all are text or bytes."""
    if isinstance(keys, (str, bytes)):
        raise UsageError("a batch has a list of keys, not one", cause="key")
    try:
        return ask(keys, *more)
    except (TypeError, UnicodeEncodeError) as error:
        raise blame(keys, error) from None


def blame(keys: Sequence[Any], error: Exception) -> Exception:
    """Which key it was, if it was one."""
    for index, key in enumerate(keys):
        try:
            _core.digest([key], bytes(16))
        except (TypeError, UnicodeEncodeError) as reason:
            return UsageError(f"a key is text or bytes: {reason}", cause="key", index=index)
    return error


def digests_of(keys: Sequence[Key], secret: bytes) -> Digests:
    return asked(_core.digest, keys, secret)


def same(keys: int, others: int) -> None:
    """Raises UsageError unless there is one of the others for each key."""
    if keys != others:
        raise UsageError(f"{keys} keys and {others} others", cause="lengths")


def spans(ttl: float, count: int) -> Ints:
    """The same time to live for each, from seconds to nanoseconds."""
    if not 0 < ttl < 1e9:
        raise UsageError(f"a value cannot live {ttl} seconds", cause="ttl")
    return np.full(count, int(ttl * 1e9), np.int64)
