"""Transfers under way, by the numbers that callers hold.

added --> pending (0) --> done (1), failed (-1): the number is forgotten
                     `--> timed out (-2): quiet; asked once more it is failed
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvferry.engine import Status, Transfer
from kvferry.errors import Error, Timeout

from .codes import tell

__all__ = ["DONE", "FAILED", "PENDING", "TIMED_OUT", "Flights"]

DONE, PENDING, FAILED, TIMED_OUT = 1, 0, -1, -2


class _Flight(NamedTuple):
    """Some transfers that count as one; none of them once they were too late."""

    transfers: tuple[Transfer, ...]
    deadline: int
    late: bool = False


class Flights:
    """Thread-safe. `now` is the clock of deadlines, in nanoseconds."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._numbers = itertools.count(1)
        self._flying: dict[int, _Flight] = {}

    def add(self, transfers: Sequence[Transfer], deadline: int) -> int:
        """A number, never 0 and never used again."""
        number = next(self._numbers)
        self._flying[number] = _Flight(tuple(transfers), deadline)
        return number

    def check(self, number: int) -> int:
        """How it stands. Does not block, but for one that is aborted because its time is up."""
        flight = self._flying.get(number)
        if flight is None or flight.late:
            self._flying.pop(number, None)
            return FAILED
        pending = any(each.status is Status.PENDING for each in flight.transfers)
        if pending and self._now() < flight.deadline:
            return PENDING
        return self._end(number, flight, 0.0)

    def wait(self, numbers: Sequence[int]) -> bool:
        """Block until all are over, and forget them. Did all of them end well?"""
        states = [self._wait(number) for number in numbers]
        return set(states) <= {DONE}

    def _wait(self, number: int) -> int:
        flight = self._flying.get(number)
        if flight is None or flight.late:
            return self.check(number)
        state = self._end(number, flight, max(flight.deadline - self._now(), 0) / 1e9)
        self._flying.pop(number, None)
        return state

    def _end(self, number: int, flight: _Flight, timeout: float) -> int:
        """Wait for every transfer, also behind one that failed: then all of it is quiet."""
        failures = [error for each in flight.transfers if (error := _failure(each, timeout))]
        for error in failures:
            tell(f"batch {number}", error)
        if any(isinstance(error, Timeout) for error in failures):
            self._flying[number] = _Flight((), flight.deadline, late=True)
            return TIMED_OUT
        self._flying.pop(number, None)
        return FAILED if failures else DONE


def _failure(transfer: Transfer, timeout: float) -> Error | None:
    try:
        transfer.wait(timeout)
    except Error as error:
        return error
    return None
