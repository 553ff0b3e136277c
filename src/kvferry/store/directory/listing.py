"""Names of keys, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...errors import PeerError, UsageError
from .messages import List, Listed, texts_in

__all__ = ["Ask", "key_of", "pages"]

# A request, and what is to come of it: which it is, or it raises.
Ask = Callable[[Any, Any], Any]

NAME = 2  # bytes of a length


def pages(ask: Ask, space: bytes) -> Iterator[list[str | bytes]]:
    """Of one namespace. Raises UsageError (names) where none are kept, PeerError (no_directory)
    when no directory answers, (changed) when another one leads than did at the beginning, and
    (protocol) for pages that cannot be."""
    term, after = None, 0
    while True:
        try:
            told = ask(List(space, after), Listed)
        except PeerError as error:
            if error.cause != "names":
                raise
            raise UsageError("this directory keeps no names", cause="names") from None
        if not isinstance(told, Listed) or term not in (None, told.term):
            raise PeerError("another directory leads by now", cause="changed", safe_to_retry=True)
        term = told.term
        names = _names_in(told)
        if names:
            yield names
        if told.after is None:
            return
        if told.after <= after:
            raise PeerError("a directory told the same page again", cause="protocol")
        after = told.after


def key_of(name: bytes | None) -> str | bytes | None:
    """As text where it is some: the same key either way."""
    if name is None:
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name


def _names_in(told: Listed) -> list[str | bytes]:
    try:
        found = texts_in(told.names, len(told.names.lengths) // NAME)
    except UsageError as error:
        raise PeerError(str(error), cause="protocol") from None
    return [key for name in found if (key := key_of(name)) is not None]
