"""What a driver and a link are."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import NamedTuple

import msgspec

from .._core import Descriptors, Done
from ..memory import Region, RegionRecord, RemoteRegion
from ..path import LinkKind
from ..submit import Slot, Submitter

__all__ = ["Driver", "Facts", "Link", "Published"]


class Facts(msgspec.Struct, frozen=True):
    """What the two ends of a channel know of each other before a link is chosen.

    epoch    drawn at random by each engine when it starts
    boot     identity of the running kernel: equal on one host only
    network  identity of the network namespace, within which a unix socket can be reached
    links    what the engine offers
    """

    epoch: int
    boot: str
    network: int
    links: tuple[str, ...]


class Published(NamedTuple):
    """A region on its way to a peer. Whoever holds it owns the descriptors."""

    record: RegionRecord
    fds: list[int]

    def discard(self) -> None:
        """Close the descriptors: nobody takes them."""
        for fd in self.fds:
            os.close(fd)


class Driver(ABC):
    """One per engine and kind of link. Thread-safe."""

    kind: LinkKind

    @staticmethod
    @abstractmethod
    def refuse(ours: Facts, theirs: Facts) -> str | None:
        """Why these two cannot use this link, from facts alone; None when they can."""

    @abstractmethod
    def publish(self, region: Region) -> Published | None:
        """What a peer needs to reach the region; None when it cannot over this link."""

    @abstractmethod
    def open(self, peer: str, epoch: int, submitter: Submitter) -> Link:
        """The half that serves one channel."""


class Link(ABC):
    """One per channel. Thread-safe.

    Descriptors given to submit were resolved: their addresses are valid here. The caller keeps them
    and all memory alive until `done` is quiet.
    """

    @abstractmethod
    def attach(self, published: Published) -> RemoteRegion:
        """Make a peer's region reachable. Takes the descriptors over, also when it raises."""

    @abstractmethod
    def detach(self, region: RemoteRegion) -> None:
        """Let go of it. No transfer uses it any more. Idempotent."""

    @abstractmethod
    def submit(
        self, op: int, d: Descriptors, done: Done, deadline: int | None = None
    ) -> Slot | None:
        """Start the transfer; see Submitter.submit. Returns what was lent to it, for release.

        The caller then helps, or calls wake.
        """

    @abstractmethod
    def wake(self) -> None:
        """Nobody is about to wait: see to it that all that was submitted is begun."""

    @abstractmethod
    def abort(self, done: Done) -> None:
        """Ask it to stop at its next chunk; it is over when `done` is quiet."""

    @abstractmethod
    def help(self, lent: Slot, done: Done, deadline: int | None) -> None:
        """The calling thread is about to wait for `done`: let it do what nobody has begun."""

    @abstractmethod
    def release(self, lent: Slot, failed: bool) -> None:
        """The transfer is quiet: take back what was lent to it."""

    @abstractmethod
    def close(self) -> None:
        """No transfer is in flight and every region is detached."""
