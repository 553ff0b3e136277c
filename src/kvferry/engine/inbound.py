"""The target's half of a channel: who connected, what they were given, what they ask."""

from __future__ import annotations

import itertools
import secrets
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import log
from ..errors import Error, Full, PeerError, RightsError, UsageError
from ..link import Facts, Published
from ..memory import Region, Visitor
from ..path import LinkKind
from ..rpc import LIMIT, MAX_FDS, Connection, auth, close_all
from . import messages
from .caller import Caller
from .control import ask
from .handshake import ServerHandshake
from .heartbeat import Heartbeat, Heartbeats
from .messages import Message
from .regions import Links
from .tenants import Badge, Keyring

if TYPE_CHECKING:
    from .front import Front

__all__ = ["Inbound"]

logger = log.get("kvferry.engine")


class Phase(Enum):
    """How far the handshake has come."""

    NEW = "new"
    CHALLENGED = "challenged"
    OPEN = "open"
    GIVEN = "given to its link"
    REFUSED = "refused"


Answer = tuple[Message, Sequence[int]]


class Inbound:
    """One connection that somebody made to this engine. Its methods run in poller workers.

    ticket     names it to connections for data and beats, which live as long as it
    badge      what the token stands for that it proved to hold
    facts      what it told of itself
    links      over which it wants to hear of regions; None before it asked
    heartbeat  that with the peer, once it asked for one
    """

    def __init__(self, front: Front, keyring: Keyring) -> None:
        self._front = front
        self._phase = Phase.NEW
        self._handshake = ServerHandshake(keyring, front.epoch, auth.new_nonce())
        # Weak: it knows us, and who only comes and goes should leave nothing to the collector.
        self._known: weakref.ref[Connection] | None = None
        self._owed: deque[Published] = deque()
        self._paying = threading.Lock()
        self._purpose = messages.CONTROL
        self.badge = Badge()
        self.facts = Facts(epoch=0, boot="", network=0, links={})
        self.links: Links | None = None
        self.heartbeat: Heartbeat | None = None
        self.beats_asked = itertools.count()  # by how many connections; the first may
        self.ticket = secrets.token_bytes(messages.TICKET_SIZE)
        self.peer = "?"
        self.epoch = 0

    def serve(
        self, connection: Connection, body: bytes, fds: list[int]
    ) -> tuple[bytes, Sequence[int]]:
        """Answer one request; the descriptors returned are lent until the reply is sent."""
        close_all(fds)  # no request brings any
        self._known = weakref.ref(connection)
        try:
            message = messages.decode(body)
            handler = _HANDLERS.get((self._phase, type(message)))
            if handler is None:
                raise PeerError(
                    f"{type(message).__name__} is not for a connection that is {self._phase.value}",
                    cause="protocol",
                )
            answer, lent = handler(self, message)
        except Error as error:
            logger.info("refused a request of %s: %s", self.peer, error)
            answer, lent = messages.Refusal(error.cause, str(error.args[0])), ()
        return messages.encode(answer), lent

    @property
    def _connection(self) -> Connection | None:
        return None if self._known is None else self._known()

    # ---- requests, in the order of the handshake ----

    def _hello(self, message: messages.Hello) -> Answer:
        self._phase = Phase.REFUSED  # unless this goes well
        challenge = self._handshake.challenge(message)
        self.epoch = message.epoch
        self._purpose = message.purpose
        self._phase = Phase.CHALLENGED
        return challenge, ()

    def _proof(self, message: messages.Proof) -> Answer:
        self._phase = Phase.REFUSED
        self.badge, proof = self._handshake.check(message.proof)
        if message.facts.epoch != self.epoch:
            raise RightsError("the epoch is not the one that was proved", cause="token")
        if (
            self.badge.number and self.epoch == self._front.epoch
        ):  # none of its peers is this engine
            raise RightsError("the epoch is another engine's", cause="token")
        connection = self._connection
        assert connection is not None, "who serves holds it"
        self.peer = message.name
        connection.peer = message.name
        if self._purpose != messages.CONTROL:
            return self._give(message.ticket, proof)
        self.facts = message.facts
        self._front.end_given_up(message.given_up, self.visitor)
        connection.limit = LIMIT
        connection.awaited = "beats"
        connection.authenticated = True
        self._phase = Phase.OPEN
        pulse = self._front.share_pulse() if connection.credentials else []
        return self._front.welcome(proof, self.ticket), _Lent(pulse)

    def _give(self, ticket: bytes, proof: bytes) -> Answer:
        """A connection for data or beats: after this answer it is no longer ours."""
        owner = self._front.holder_of(ticket, self.visitor)
        if self._purpose == messages.BEAT and next(owner.beats_asked):
            raise PeerError("it has beats already", cause="protocol")
        connection = self._connection
        assert connection is not None, "who serves holds it"
        connection.hand_over = partial(self._front.take, self._purpose, self, owner)
        connection.authenticated = True
        self._phase = Phase.GIVEN
        return self._front.welcome(proof, b""), ()

    def _list(self, message: messages.ListRegions) -> Answer:
        """Also the subscription: from here on new regions are announced."""
        try:
            foreign = None if message.foreign_link is None else LinkKind(message.foreign_link)
            self.links = Links(LinkKind(message.link), foreign)
        except ValueError as error:
            raise UsageError(f"unknown link: {error}", cause="path") from None
        published, last, more = self._front.page_of_regions(
            self.links, self.facts, self.visitor, message.after, MAX_FDS
        )
        fds = [fd for each in published for fd in each.fds]
        records = [each.record for each in published]
        counts = [len(each.fds) for each in published]
        return messages.Regions(records, counts, last, more), _Lent(fds)

    def _call(self, message: messages.Call) -> Answer:
        answer = self._front.answer(self._caller(), message.service, message.request)
        return messages.Result(answer), ()

    def _notify(self, message: messages.Notify) -> Answer:
        if self.badge.number:
            raise RightsError("notifications are of the engine's own peers", cause="tenant")
        if not self._front.deliver(self.peer, message.name, message.message):
            raise Full("the queue of notifications is full", cause="queue_full")
        return messages.Empty(), ()

    def _caller(self) -> Caller:
        connection = self._connection
        who = None if connection is None else connection.credentials
        pid = None if who is None else who[0]
        link = None if self.links is None else self.links.own
        badge = self.badge
        return Caller(self.peer, self.epoch, pid, badge.tenant, badge.rights, link, self._pidfd)

    def _pidfd(self) -> int | None:
        connection = self._connection
        return None if connection is None else connection.pidfd()

    # ---- what this engine tells the other ----

    def announce(self, published: Published) -> bool:
        """Owe the peer the news of a region, and own it; True when `pay` is to be called."""
        self._owed.append(published)
        return self._paying.acquire(blocking=False)

    def pay(self, timeout: float) -> None:
        """Tell what is owed, one after the other, so that a slow peer costs one thread.

        A peer that does not answer in time is told nothing more: it asks when it misses a region.
        """
        answered = True
        while True:
            try:
                published = self._owed.popleft()
            except IndexError:
                self._paying.release()
                if not self._owed or not self._paying.acquire(blocking=False):
                    return
                continue
            try:
                if answered:
                    news = messages.Announce(published.record)
                    answered = self._tell(news, published.fds, timeout)
            finally:
                published.discard()

    def revoke(self, serial: int, timeout: float) -> bool:
        """Ask it to let go of a region; True when it has, or is gone."""
        return self._tell(messages.Revoke(serial), (), timeout)

    def _tell(self, message: Message, fds: Sequence[int], timeout: float) -> bool:
        connection = self._connection
        if connection is None or self._phase is not Phase.OPEN:
            return True
        try:
            answer, received = ask(connection, message, timeout, self.peer, fds)
        except Error as error:
            logger.info("telling %s failed: %s", self.peer, error)
            return connection.lost is not None
        close_all(received)
        return isinstance(answer, messages.Empty)

    def reaches(self, region: Region, link: LinkKind) -> bool:
        """Does it reach our region over this link?"""
        if self.links is None or not region.audience.admits(self.visitor):
            return False
        return link is (self.links.own if region.own else self.links.foreign)

    def beat(self, sock: socket.socket, heartbeats: Heartbeats) -> None:
        """Beat with the peer over a connection that it made for that; takes it over."""
        self.heartbeat = heartbeats.begin(
            sock, self.peer, self.facts.beat_ms / 1000, self.lose, called=True
        )
        connection = self._connection
        if connection is not None:
            connection.awaited = None

    @property
    def visitor(self) -> Visitor:
        """Who it is to regions, once it has proved that."""
        return Visitor(self.epoch, self.badge.number, self.badge.rights)

    @property
    def admitted(self) -> bool:
        """Has the peer proved itself?"""
        return self._phase is Phase.OPEN

    @property
    def lost(self) -> bool:
        """Is the connection over?"""
        connection = self._connection
        return connection is None or connection.lost is not None

    def lose(self, why: PeerError) -> None:
        """End its channel here."""
        connection = self._connection
        if connection is not None:
            connection.lose(why)

    def hang_up(self) -> None:
        """It does not let go of what it was told to let go of."""
        self.lose(PeerError("it does not answer", cause="silent", peer=self.peer))

    def abandon(self) -> None:
        """In a forked child."""
        connection = self._connection
        if connection is not None:
            connection.abandon()


class _Lent(list[int]):
    """Descriptors lent to a reply, closed when the reply has been sent and forgotten."""

    def __del__(self) -> None:
        close_all(self)


# (phase, message) -> what answers it; anything else is refused.
_HANDLERS: dict[tuple[Phase, type[Message]], Callable[[Inbound, Any], Answer]] = {
    (Phase.NEW, messages.Hello): Inbound._hello,
    (Phase.CHALLENGED, messages.Proof): Inbound._proof,
    (Phase.OPEN, messages.ListRegions): Inbound._list,
    (Phase.OPEN, messages.Call): Inbound._call,
    (Phase.OPEN, messages.Notify): Inbound._notify,
}
