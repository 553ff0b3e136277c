"""Channels that ended without their peer's knowledge, until it was told."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["GIVEN_UP_KEPT", "GivenUp"]

# Epochs whose lost channels are remembered: most of them are gone for good.
GIVEN_UP_KEPT = 256


class GivenUp:
    """Tickets of lost channels by their peer's epoch. Whoever has it guards it."""

    def __init__(self) -> None:
        self._tickets: dict[int, tuple[bytes, ...]] = {}

    def add(self, epoch: int, ticket: bytes) -> None:
        self._tickets[epoch] = (*self._tickets.get(epoch, ()), ticket)
        if len(self._tickets) > GIVEN_UP_KEPT:
            del self._tickets[next(iter(self._tickets))]

    def each(self) -> dict[int, tuple[bytes, ...]]:
        """As it stands; the caller's own."""
        return dict(self._tickets)

    def told(self, epoch: int, tickets: Collection[bytes]) -> None:
        """The peer knows of these."""
        left = tuple(each for each in self._tickets.pop(epoch, ()) if each not in tickets)
        if left:
            self._tickets[epoch] = left
