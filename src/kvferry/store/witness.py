"""Who learns of every object that comes and every one that leaves."""

from __future__ import annotations

from typing import Protocol

from .answers import Cause
from .table import Entries

__all__ = ["Witness"]


class Witness(Protocol):
    """Is told by a catalog, whose lock is held: may look and note, and waits for nobody.

    In order for each key: it came, it left, it came again.
    """

    def came(self, entries: Entries) -> None:
        """These objects are there now."""

    def left(self, entries: Entries, cause: Cause) -> None:
        """These are not there any more."""
