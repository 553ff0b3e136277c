"""Which packages a run is asked to measure too. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...errors import UsageError
from ..cases import Plan
from .packages import PACKAGES

__all__ = ["Asked", "check_beside", "parse_peers"]


class Asked(NamedTuple):
    """A package, and the Python that has it."""

    name: str
    python: str

    @property
    def transport(self) -> str:
        return PACKAGES[self.name].transport

    @property
    def install(self) -> str:
        return PACKAGES[self.name].install


def parse_peers(words: Iterable[str]) -> tuple[Asked, ...]:
    """Each ``name`` or ``name=/path/of/python``. Raises UsageError for an unknown name."""
    asked = tuple(_parse(word) for word in words)
    if len({each.name for each in asked}) < len(asked):
        raise UsageError("a peer is named twice", cause="peer")
    return asked


def check_beside(plan: Plan, asked: Sequence[Asked]) -> None:
    """A package has one caller in one process. Raises UsageError for a plan with more."""
    if asked and (plan.pattern is not None or plan.threads > 1):
        raise UsageError("a peer goes without pattern and threads", cause="peer")


def _parse(word: str) -> Asked:
    name, _, python = word.partition("=")
    if name not in PACKAGES:
        raise UsageError(f"unknown peer {name!r}: know {', '.join(PACKAGES)}", cause="peer")
    return Asked(name, python or sys.executable)
