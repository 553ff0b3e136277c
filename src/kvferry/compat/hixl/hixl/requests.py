"""Asynchronous transfers that nobody has had the outcome of. One-shot: who gets it ends it."""

from __future__ import annotations

import itertools
import threading
from typing import NamedTuple

import kvferry as kf

from .codes import TransferStatus

__all__ = ["Request", "Requests"]


class Request(NamedTuple):
    """What one call of transfer_async began: a transfer for every way of the channel it takes.

    descriptors  it was given
    """

    remote: str
    channel: kf.Channel
    transfers: tuple[kf.Transfer, ...]
    descriptors: int
    user_data: int

    def status(self) -> TransferStatus:
        """Where it stands now. Does not block."""
        stages = {transfer.status for transfer in self.transfers}
        if kf.Status.PENDING in stages:
            return TransferStatus.WAITING
        return TransferStatus.COMPLETED if stages == {kf.Status.DONE} else TransferStatus.FAILED


class Requests:
    """By number, oldest first. Thread-safe; the lock is held for lines that touch the table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, Request] = {}

    def add(self, request: Request) -> int:
        with self._lock:
            number = next(self._numbers)
            self._open[number] = request
        return number

    def get(self, number: int) -> Request | None:
        return self._open.get(number)

    def all(self) -> list[tuple[int, Request]]:
        with self._lock:
            return list(self._open.items())

    def end(self, number: int) -> bool:
        """True for the one caller who ended it."""
        with self._lock:
            return self._open.pop(number, None) is not None

    def take(self, channel: kf.Channel) -> list[Request]:
        """End all that go over `channel`."""
        with self._lock:
            gone = [number for number, each in self._open.items() if each.channel is channel]
            return [self._open.pop(number) for number in gone]
