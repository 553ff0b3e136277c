"""What a driver and a link are."""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, NamedTuple, Protocol

import msgspec

from .._core import Descriptors, Done, PeerWatch
from ..errors import Error, PeerError
from ..memory import Region, RegionRecord, RemoteRegion, Visitor
from ..path import LinkKind, Path
from ..runtime import Access
from ..submit import Slot, Submitters

__all__ = ["Driver", "Facts", "Link", "Owner", "Peer", "Published"]


# What one driver tells. Facts are decoded before their sender has proved anything, so there is a
# bound: an empty dict is one byte of a message, and sixty-four here.
_Told = Annotated[dict[str, int | str], msgspec.Meta(max_length=16)]


class Facts(msgspec.Struct, frozen=True):
    """What the two ends of a channel know of each other before a link is chosen.

    epoch    drawn at random by each engine when it starts
    boot     identity of the running kernel: equal on one host only
    network  identity of the network namespace, within which a unix socket can be reached
    links    what the engine offers, and what the driver of each tells
    beat_ms  how often it says that it lives
    """

    epoch: int
    boot: str
    network: int
    links: Annotated[dict[str, _Told], msgspec.Meta(max_length=16)]
    beat_ms: Annotated[int, msgspec.Meta(ge=1, le=86_400_000)] = 10_000


class Peer(NamedTuple):
    """A peer that proved itself, as a driver sees it when a channel opens.

    name   its address
    pid    of its process, as this process sees it; None where the kernel does not say
    pidfd  a descriptor of its process, borrowed until the link is closed; None where there is none
    wire   dials one more authenticated connection to it, for bytes; blocks to a deadline of
           _core.now() and a bound of its own, raises PeerError, RightsError or Timeout
    watch  tells whether it is still there
    by     when its channel is to be open, of _core.now(); None: whenever it may be
    """

    name: str
    facts: Facts
    pid: int | None
    pidfd: int | None
    wire: Callable[[int | None], socket.socket]
    watch: PeerWatch | None = None
    by: int | None = None


class Published(NamedTuple):
    """A region on its way to a peer. Whoever holds it owns the descriptors."""

    record: RegionRecord
    fds: list[int]

    def discard(self) -> None:
        """Close the descriptors: nobody takes them."""
        for fd in self.fds:
            os.close(fd)


class Owner(Protocol):
    """On whose behalf connections are served; it is `lost` before it is dismissed.

    visitor  who that is, to whom regions are there or not
    """

    @property
    def visitor(self) -> Visitor: ...
    @property
    def lost(self) -> bool: ...


class Driver(ABC):
    """One per engine and kind of link. Thread-safe."""

    kind: LinkKind

    def facts(self) -> dict[str, int | str]:
        """What a peer must know of this side before it can judge the link."""
        return {}

    @staticmethod
    @abstractmethod
    def refuse(ours: Facts, theirs: Facts) -> str | None:
        """Why these two cannot use this link, from facts alone; None when they can."""

    @abstractmethod
    def publish(self, region: Region, to: Facts, most: Access = Access.WRITE) -> Published | None:
        """What the peer that told `to` of itself needs to reach the region; None when it cannot
        over this link, or could not be held to `most`. The capability may be for that peer
        alone."""

    def retire(self, region: Region) -> None:
        """The region's memory goes: no transfer uses it, and peers let go of it or were hung up on.

        Who knows of the memory elsewhere says so there, or holds a buffer of it until he has.
        """

    @abstractmethod
    def open(self, peer: Peer, path: Path, submitters: Submitters) -> Link:
        """The half that serves one channel over `path`. Raises PathRefused with the reason."""

    def serve(self, sock: socket.socket, owner: Owner) -> None:
        """Answer a peer on a connection that it dialled for bytes and that proved itself.

        Takes the socket over, also when it raises; returns at once. Served until the peer or
        `dismiss` ends it. Raises PeerError where nothing is to be served, or the owner is lost.
        """
        sock.close()
        raise PeerError(f"the link {self.kind.value} is not served", cause="not_served")

    def dismiss(self, owner: Owner) -> None:
        """Serve this owner's connections no longer; on return they touch no memory any more.

        Blocks for a moment, not for the peer. No connections: nothing to do.
        """

    def close(self) -> None:
        """The engine ends: nobody is served any more, and every channel is closed."""

    def forked(self) -> None:
        """In a forked child: close inherited descriptors; threads of this driver are not here."""


class Link(ABC):
    """One per channel. Thread-safe.

    path  what it was opened for

    Descriptors given to submit were resolved: their addresses are valid here. The caller keeps them
    and all memory alive until `done` is quiet.
    """

    path: Path

    @abstractmethod
    def attach(self, published: Published) -> RemoteRegion:
        """Make a peer's region reachable. Takes the descriptors over, also when it raises."""

    @abstractmethod
    def detach(self, region: RemoteRegion) -> None:
        """Let go of it. No transfer uses it any more. Idempotent."""

    @abstractmethod
    def submit(
        self,
        op: int,
        d: Descriptors,
        done: Done,
        deadline: int | None = None,
        patient: bool = False,
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

    def why(self, done: Done) -> Error | None:
        """What a transfer that failed in a device's library met there, as its `done` tells; or why
        it was lost, where the link knows that.

        A PeerError: the way to the peer, or the peer, failed; what reached it is unknown.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """No transfer is in flight and every region is detached."""

    def forked(self) -> None:
        """In a forked child: close inherited descriptors."""
