"""The caller copies."""

from __future__ import annotations

from .._core import CopyEngines, Descriptors, Done
from .base import Slot, Submitter

__all__ = ["InlineSubmitter"]


class InlineSubmitter(Submitter):
    """Copies in the calling thread; a transfer is over when submit returns."""

    def __init__(self, engines: CopyEngines) -> None:
        self._copy = engines.copy_inline

    def submit(
        self, op: int, d: Descriptors, done: Done, deadline: int | None, patient: bool = False
    ) -> None:
        self._copy(op, d, done, deadline)

    def abort(self, done: Done) -> None:
        done.abort()

    def wake(self) -> None:
        """Nobody sleeps."""

    def help(self, lent: Slot, done: Done, deadline: int | None) -> None:
        """Nothing is ever left to do."""

    def release(self, lent: Slot, failed: bool) -> None:
        """Nothing is ever lent."""

    def close(self) -> None:
        """Nothing is held."""
