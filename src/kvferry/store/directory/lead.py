"""Whether a directory leads."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Alone", "Lead"]


class Lead(Protocol):
    """What an election says this moment. Thread-safe.

    leads   this directory does; never two of them at once
    leader  addresses of whoever does, as far as known
    term    of that leader, greater than all before
    """

    @property
    def leads(self) -> bool: ...
    @property
    def leader(self) -> tuple[str, ...]: ...
    @property
    def term(self) -> int: ...
    def close(self) -> None:
        """Lead no more. Idempotent."""


class Alone:
    """The only directory: leads until it is closed, in a term named by when it began."""

    def __init__(self, addresses: tuple[str, ...] = ()) -> None:
        self.leader = addresses
        self.leads = True
        self.term = time.time_ns()

    def close(self) -> None:
        self.leads = False
