"""Callers' buffers as native code takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import View, lengths_of
from ...batch import buffer_of
from ...errors import RightsError, UsageError
from ..table import Words

__all__ = ["flat", "flats", "measured", "writable"]


def flat(thing: Any) -> Any:
    """`thing` if it is a contiguous buffer of bytes of any kind, else one that shares its memory:
    of a tensor, or an array that has no buffer. Raises UsageError for anything else."""
    try:
        view = memoryview(thing)
    except (TypeError, ValueError, BufferError):
        return _memory_of(thing)
    if "O" in view.format:
        return _memory_of(thing)  # objects, or only a name of a field
    if not view.c_contiguous:
        raise UsageError(f"{type(thing).__name__} is not contiguous", cause="not_contiguous")
    return view


def _memory_of(thing: Any) -> Any:
    try:
        buffer = buffer_of(thing)
    except UsageError as error:
        if error.cause != "zero_length":
            raise
        return memoryview(bytearray())
    return View(buffer.address, buffer.length, buffer.readonly, buffer)


def flats(things: Sequence[Any]) -> list[Any]:
    """The same for each; the error names the index."""
    out = []
    for index, thing in enumerate(things):
        try:
            out.append(flat(thing))
        except UsageError as error:
            error.index = index
            raise
    return out


def writable(view: Any) -> Any:
    """Raises RightsError for a buffer that is read-only."""
    if view.readonly:
        raise RightsError("the buffer to read into is read-only", cause="read_only")
    return view


def measured(things: Sequence[Any]) -> tuple[Sequence[Any], Words]:
    """Contiguous buffers of bytes, and how long each is. Raises UsageError with the index of what
    is none."""
    try:
        return things, lengths_of(things)
    except (TypeError, ValueError, BufferError):  # not as native code takes them
        views = flats(things)
        return views, lengths_of(views)
