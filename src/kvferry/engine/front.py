"""Where peers come in: what an engine listens on, who connected, and what they are told."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from hmac import compare_digest
from typing import TYPE_CHECKING, Protocol

from .. import log
from ..address import Address, TcpAddress, UnixAddress
from ..errors import Error, PeerError, RightsError
from ..link import Driver, Facts, Published
from ..memory import Region, Visitor
from ..path import LinkKind
from ..rpc import Connection, Poller, listen, listen_abstract
from . import messages
from .caller import Caller
from .heartbeat import Heartbeats
from .inbound import Inbound
from .mailbox import Mailbox, Notification
from .pulse import Pulse
from .regions import Links, OwnRegions, Page
from .tenants import Keyring

if TYPE_CHECKING:
    from ..rpc.tls import Tls

__all__ = ["Front"]

logger = log.get("kvferry.engine")

REVOKE_AT_ONCE = 16


class Host(Protocol):
    """Whose front it is."""

    epoch: int

    @property
    def name(self) -> str: ...
    @property
    def facts(self) -> Facts: ...
    def answer(self, caller: Caller, service: str, request: bytes) -> bytes: ...


class Front:
    """The listening sockets of one engine and the connections made to them. Thread-safe.

    addresses  that it listens on
    wires      the driver that serves connections for data
    """

    def __init__(
        self,
        host: Host,
        poller: Poller,
        own: OwnRegions,
        wires: Driver,
        heartbeats: Heartbeats,
        mailbox: Mailbox,
    ) -> None:
        self._host = host
        self._poller = poller
        self._own = own
        self._wires = wires
        self._heartbeats = heartbeats
        self._mailbox = mailbox
        self._lock = threading.Lock()
        self._inbounds: set[Inbound] = set()
        self._sockets: list[tuple[socket.socket, Address | None]] = []
        self._door = b""
        self._pulse: Pulse | None = None
        self.addresses: tuple[str, ...] = ()

    @property
    def epoch(self) -> int:
        return self._host.epoch

    # ---- listening ----

    def bind(self, wanted: Iterable[Address], pulse: Pulse) -> None:
        """Take the addresses, and a door for peers on this host. Nobody is answered yet."""
        self._pulse = pulse
        door = listen_abstract()
        self._sockets.append((door, None))
        self._door = _abstract_name(door.getsockname())
        for address in wanted:
            sock = listen(address)
            self._sockets.append((sock, address))
            if isinstance(address, TcpAddress):
                address = TcpAddress(address.host, sock.getsockname()[1])
            self.addresses += (str(address),)

    def open(self, keyring: Keyring, tls: Tls | None) -> None:
        """Answer from now on, those who hold one of these tokens; over TCP under `tls`, if any."""
        for sock, address in self._sockets:
            under = tls if isinstance(address, TcpAddress) else None
            self._poller.listen(sock, partial(self._accept, keyring), tls=under)

    def _accept(self, keyring: Keyring, sock: socket.socket) -> Connection:
        inbound = Inbound(self, keyring)
        with self._lock:
            self._inbounds.add(inbound)
        return Connection(sock, inbound.serve, on_lost=partial(self._lost, inbound))

    def _lost(self, inbound: Inbound, connection: Connection | None = None) -> None:
        self._let_go(inbound)
        with self._lock:  # until here its ticket can be given up, which waits for the same
            self._inbounds.discard(inbound)

    # ---- what inbound connections ask for ----

    def welcome(self, proof: bytes, ticket: bytes) -> messages.Welcome:
        return messages.Welcome(proof, self._host.name, self._host.facts, self._door, ticket)

    def share_pulse(self) -> list[int]:
        return [] if self._pulse is None else self._pulse.share()

    def page_of_regions(
        self, links: Links, to: Facts, visitor: Visitor, after: int, most: int
    ) -> Page:
        return self._own.publish_after(links, to, visitor, after, most)

    def answer(self, caller: Caller, service: str, request: bytes) -> bytes:
        return self._host.answer(caller, service, request)

    @property
    def callers(self) -> frozenset[Visitor]:
        """Of a peer that is not named no byte lands here any more."""
        with self._lock:
            return frozenset(inbound.visitor for inbound in self._inbounds if inbound.admitted)

    def deliver(self, peer: str, name: str, message: bytes) -> bool:
        """False when the queue is full."""
        return self._mailbox.put(Notification(peer, name, message))

    def holder_of(self, ticket: bytes, visitor: Visitor) -> Inbound:
        """The open connection of this very visitor that a ticket names."""
        with self._lock:
            for inbound in self._inbounds:
                if inbound.visitor == visitor and compare_digest(inbound.ticket, ticket):
                    return inbound
        raise RightsError(
            "no connection has this ticket: another engine was meant, check the advertised address",
            cause="token",
        )

    def end_given_up(self, tickets: Iterable[bytes], visitor: Visitor) -> None:
        """It has lost these connections: on return none of them touches memory any more."""
        for inbound in self._holders_of(set(tickets), visitor):
            inbound.lose(PeerError("the peer gave it up", cause="given_up", peer=inbound.peer))
            self._let_go(inbound)

    def _holders_of(self, tickets: set[bytes], visitor: Visitor) -> list[Inbound]:
        """Those that are not gone yet."""
        with self._lock:
            ours = [inbound for inbound in self._inbounds if inbound.visitor == visitor]
        return [inbound for inbound in ours if inbound.ticket in tickets]

    def take(self, purpose: str, arrived: Inbound, owner: Inbound, sock: socket.socket) -> None:
        """The socket that came as `arrived` is for data or beats, until `owner` is lost."""
        with self._lock:
            self._inbounds.discard(arrived)
        if purpose == messages.BEAT:
            owner.beat(sock, self._heartbeats)
        else:
            self._wires.serve(sock, owner)
        if owner.lost:
            self._let_go(owner)

    def _let_go(self, owner: Inbound) -> None:
        self._wires.dismiss(owner)
        if owner.heartbeat is not None:
            owner.heartbeat.close()

    # ---- what they are told ----

    def announce(self, region: Region, timeout: float) -> None:
        """Tell of a new region, in the poller's workers."""
        for inbound in self._subscribers():
            try:
                published = self._publish(inbound, region)
            except Error as error:  # it asks when it misses a region, like those not told in time
                logger.warning("%r is not announced to %s: %s", region, inbound.peer, error)
                continue
            if published is not None and inbound.announce(published):
                self._poller.submit(partial(inbound.pay, timeout))

    def _publish(self, inbound: Inbound, region: Region) -> Published | None:
        if inbound.links is None:
            return None
        return self._own.publish(inbound.links, region, inbound.facts, inbound.visitor)

    def revoke(self, region: Region, timeout: float) -> bool:
        """Have every peer let go of a region, before its memory goes. False: one still reaches it.

        A silent peer is hung up on: else a late frame of it could find other memory at the same
        address. One that maps it keeps the pages, which then are nobody else's. Nothing stops one
        whom the kernel lets into this process.
        """
        silent = self._revoke(region, self._subscribers(), timeout)
        for inbound in silent:
            inbound.hang_up()
        if silent:
            logger.warning("%d peers did not let go of %r", len(silent), region)
        return not any(inbound.reaches(region, LinkKind.CMA) for inbound in silent)

    def revoke_all(self, regions: Iterable[Region], timeout: float) -> None:
        """The memory of this engine goes: have those let go of it who reach into this process."""
        peers = [each for each in self._subscribers() if LinkKind.CMA in (each.links or ())]
        for region in regions if peers else ():
            silent = self._revoke(region, peers, timeout)
            peers = [each for each in peers if each not in silent]

    def _revoke(self, region: Region, peers: list[Inbound], timeout: float) -> list[Inbound]:
        """Ask several at once; those that did not. Not in the poller's workers, since who
        unregisters may be one of them."""

        def ask(peer: Inbound) -> bool:
            return peer.revoke(region.serial, timeout)

        peers = [peer for peer in peers if region.audience.admits(peer.visitor)]
        if not peers:
            return []
        try:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(min(len(peers), REVOKE_AT_ONCE)) as threads:
                answers = list(threads.map(ask, peers))
        except RuntimeError:  # no thread, or the interpreter ends: one after the other, some again
            answers = list(map(ask, peers))
        return [peer for peer, gone in zip(peers, answers, strict=True) if not gone]

    def _subscribers(self) -> list[Inbound]:
        with self._lock:
            return [inbound for inbound in self._inbounds if inbound.links is not None]

    # ---- the end ----

    def close(self) -> None:
        """Stop listening, and let peers see that the engine is gone."""
        for sock, address in self._sockets:
            self._poller.forget(sock)
            if isinstance(address, UnixAddress):
                _unlink(address.path)
            sock.close()
        self._sockets.clear()
        if self._pulse is not None:
            self._pulse.close()

    def forked(self) -> None:
        """In a forked child: close inherited descriptors."""
        for inbound in self._inbounds:
            inbound.abandon()
        for sock, _ in self._sockets:
            sock.close()
        if self._pulse is not None:
            self._pulse.forked()


def _abstract_name(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else name


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
