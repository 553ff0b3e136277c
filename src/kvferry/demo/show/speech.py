"""Tokens as text that a terminal may show, as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Speech", "readable"]

UNREADABLE = "�"


class Speech:
    """One answer. A character may be spread over several tokens: it is told when it is whole."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._told = 0

    def more(self, given: Sequence[int]) -> str:
        """What can be told now, and was not yet."""
        return self._rest(self._decode(given).rstrip(UNREADABLE))

    def end(self, given: Sequence[int]) -> str:
        """All that is left."""
        return self._rest(self._decode(given))

    def _rest(self, text: str) -> str:
        rest = text[self._told :]
        self._told = max(self._told, len(text))
        return readable(rest)


def readable(text: str) -> str:
    """In one line, without what a terminal would obey."""
    line = text.replace("\n", " ")
    return "".join(each if each.isprintable() else UNREADABLE for each in line)
