"""Which other stores a run is asked to measure too. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from ...errors import UsageError

__all__ = ["OURS", "Rival", "parse_rivals"]

# "compat" is the package mooncake that is kvferry.
INSTALL = {
    "compat": "kvferry",
    "mooncake": "mooncake-transfer-engine-non-cuda",
    "redis": "redis hiredis",
}


class Rival(NamedTuple):
    """A store, and the Python that has its package."""

    name: str
    python: str

    @property
    def install(self) -> str:
        """What pip calls it."""
        return INSTALL.get(self.name, self.name)

    @property
    def is_ours(self) -> bool:
        return self.install == "kvferry"


OURS = Rival("kvferry", sys.executable)


def parse_rivals(words: Iterable[str]) -> tuple[Rival, ...]:
    """Each ``name`` or ``name=/path/of/python``. Raises UsageError for an unknown name."""
    asked = tuple(_parse(word) for word in words)
    if len({each.name for each in asked}) < len(asked):
        raise UsageError("a peer is named twice", cause="peer")
    return asked


def _parse(word: str) -> Rival:
    name, _, python = word.partition("=")
    if name not in INSTALL:
        raise UsageError(f"unknown store {name!r}: know {', '.join(INSTALL)}", cause="peer")
    return Rival(name, python or sys.executable)
