"""What a submitter is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .._core import Descriptors, Done
from ..runtime import Stream

__all__ = ["Slot", "Submitter"]

Slot = list[Stream]  # streams lent to one transfer


class Submitter(ABC):
    """Starts copies whose addresses are valid here. Thread-safe.

    The caller keeps descriptors and memory alive until `done` is quiet, then gives back what it
    was lent.
    """

    @abstractmethod
    def submit(
        self, op: int, d: Descriptors, done: Done, deadline: int | None, patient: bool = False
    ) -> Slot | None:
        """Start the copies, or leave them to a thread that will help. Returns what it lent.

        `deadline`, in nanoseconds of _core.now(), stops copies made in the calling thread. Where no
        slot is free a `patient` caller waits for one until the deadline and gets Timeout, or None
        once `done` is aborted and over; others get Full at once. Whenever it raises, a signal's
        exception included, the caller forsakes `done`, calls wake and waits for quiet.
        """

    @abstractmethod
    def abort(self, done: Done) -> None:
        """Ask a transfer to stop at its next chunk; one that was not begun is over soon."""

    @abstractmethod
    def wake(self) -> None:
        """Nobody is about to wait: see to it that all that was submitted is begun."""

    @abstractmethod
    def help(self, lent: Slot, done: Done, deadline: int | None) -> None:
        """The calling thread is about to wait for `done`: let it do copies that nobody began."""

    @abstractmethod
    def release(self, lent: Slot, failed: bool) -> None:
        """The transfer is quiet: take back what submit lent to it."""

    @abstractmethod
    def close(self) -> None:
        """No transfer is in flight any more."""
