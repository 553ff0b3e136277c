"""An engine's channels: one per peer, path and options, and how each comes to be."""

from __future__ import annotations

import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from .. import _core, config, log
from ..address import Address, TcpAddress
from ..address import parse as parse_address
from ..errors import ClosedError, NotQuiet, PathRefused, PeerError, Timeout
from ..link import Driver, Facts, Link, Peer
from ..path import LinkKind, Path
from ..rpc import Connection, Poller
from ..runtime import HostRuntime
from ..submit import SlotPool, Submitters
from .awaiting import Bells
from .channel import Channel
from .connect import Identity, Met, dial_again, meet
from .deadline import deadline_after
from .given_up import GivenUp
from .heartbeat import Heartbeats
from .messages import BEAT, DATA
from .negotiate import foreign, rank
from .options import ChannelOptions
from .pushes import serve_channel

__all__ = ["Channels"]

logger = log.get("kvferry.engine")


class _DialLock:
    """Held by whoever connects to one peer over one path; gone when nobody does."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Channels:
    """The channels of one engine, which owns all that they are made with. Thread-safe.

    slots  streams for the transfers of all of them
    """

    def __init__(
        self,
        options: config.Options,
        poller: Poller,
        runtime: HostRuntime,
        drivers: Mapping[LinkKind, Driver],
        copies: _core.CopyEngines,
        bells: Bells,
        local: _core.SpanTable,
        heartbeats: Heartbeats,
    ) -> None:
        self._options = options
        self._poller = poller
        self._runtime = runtime
        self._drivers = drivers
        self._copies = copies
        self._bells = bells
        self._local = local
        self._heartbeats = heartbeats
        self.slots = SlotPool(runtime.stream, self._settle_quiet_ones)
        self._lock = threading.Lock()
        self._closed = False
        self._dialing: weakref.WeakValueDictionary[object, _DialLock] = (
            weakref.WeakValueDictionary()
        )
        self._every: set[Channel] = set()  # until it has ended, whoever else forgets it
        self._known: dict[tuple[int, ChannelOptions], Channel] = {}
        self._epochs: dict[Address, int] = {}  # who was met at an address last
        self._given_up = GivenUp()

    def connect(
        self, us: Identity, address: str, options: ChannelOptions, timeout: float
    ) -> Channel:
        """See Engine.connect."""
        deadline_after(timeout)  # refuses one that is none
        there = parse_address(address)
        deadline = time.monotonic() + timeout
        dialing = self._dial_lock((there, options))
        if not dialing.lock.acquire(timeout=timeout):
            raise Timeout(
                "somebody else has been connecting there", cause="connect_timeout", peer=str(there)
            )
        try:
            known = self._find(self._epochs.get(there), options)
            return known or self._connect(us, there, options, deadline)
        finally:
            dialing.lock.release()

    def live(self) -> list[Channel]:
        """Those that have not ended."""
        with self._lock:
            return list(self._every)

    def close(self) -> list[NotQuiet]:
        """End all of them, and make no more; what did not become quiet within the grace."""
        self._closed = True
        restless = []
        for channel in self.live():
            try:
                channel.close()
            except NotQuiet as error:
                restless.append(error)
        return restless

    def forked(self) -> None:
        """In a forked child."""
        for channel in list(self._every):
            channel.forked()

    def _dial_lock(self, key: object) -> _DialLock:
        with self._lock:
            return self._dialing.setdefault(key, _DialLock())

    def _connect(
        self,
        us: Identity,
        there: Address,
        options: ChannelOptions,
        deadline: float,
    ) -> Channel:
        us = us._replace(given_up=self._lost())
        met = meet(us, there, self._poller, self._runtime, deadline, self._options.call_timeout)
        self._epochs[there] = met.facts.epoch
        with self._lock:
            self._given_up.told(met.facts.epoch, us.given_up.get(met.facts.epoch, ()))
        with ExitStack() as undo:
            undo.callback(met.control.close)
            known = self._find(met.facts.epoch, options)
            if known is not None:
                return known
            self._beat(us, met, there, deadline)
            peer = self._peer(us, met, there, deadline)
            ways, rejected = self._open_ways(us.facts, peer, options)
            for way in ways:
                undo.callback(way.close)
            channel = Channel(
                met.control,
                ways,
                rejected,
                self._copies,
                self._local,
                self._bells,
                self._options.quiet_grace,
                self._ended,
            )
            undo.pop_all()
            undo.callback(channel.close)
            met.connection.serve = serve_channel(channel)
            met.connection.on_lost = partial(
                _channel_lost, self._poller.submit, weakref.ref(channel)
            )
            channel.known_regions.refresh(max(deadline - time.monotonic(), 0))
            with self._lock:
                if self._closed:
                    raise ClosedError("the engine was closed", cause="closed")
                self._every.add(channel)
                self._known[met.facts.epoch, options] = channel
            undo.pop_all()
        return channel

    def _beat(self, us: Identity, met: Met, there: Address, deadline: float) -> None:
        left, epoch = max(deadline - time.monotonic(), 0), met.facts.epoch
        sock = dial_again(us, there, BEAT, met.control.ticket, epoch, self._poller, left)
        met.control.heartbeat = self._heartbeats.begin(
            sock,
            met.control.peer,
            met.facts.beat_ms / 1000,
            met.control.lose,
            called=False,
        )

    def _find(self, epoch: int | None, options: ChannelOptions) -> Channel | None:
        known = self._known.get((epoch, options)) if epoch is not None else None
        return None if known is None or known.stale() else known

    def _ended(self, channel: Channel) -> None:
        with self._lock:
            for key, known in list(self._known.items()):
                if known is channel:
                    del self._known[key]
            for address, epoch in list(self._epochs.items()):
                if epoch == channel.epoch:
                    del self._epochs[address]
            self._every.discard(channel)
            if channel.was_lost:
                self._given_up.add(channel.epoch, channel.ticket)

    def _lost(self) -> Mapping[int, Sequence[bytes]]:
        """By epoch: tickets of those that were lost. Some may still be coming to their end, while
        others know already what became of a transfer."""
        with self._lock:
            lost = self._given_up.each()
            for channel in self._every:
                if channel.was_lost:
                    lost[channel.epoch] = (*lost.get(channel.epoch, ()), channel.ticket)
        return lost

    def _settle_quiet_ones(self) -> None:
        for channel in self.live():
            channel.settle_quiet_ones()

    def _peer(self, us: Identity, met: Met, there: Address, deadline: float) -> Peer:
        credentials = met.connection.credentials

        # A channel that closes waits no longer than its grace, so neither does who dials for it.
        patience = min(self._options.call_timeout, self._options.quiet_grace)

        def wire(deadline: int | None) -> socket.socket:
            left = patience if deadline is None else (deadline - _core.now()) / 1e9
            timeout = min(patience, left)
            where = self._wire_address(there, met.facts)
            return dial_again(
                us, where, DATA, met.control.ticket, met.facts.epoch, self._poller, timeout
            )

        return Peer(
            met.control.peer,
            met.facts,
            pid=None if credentials is None else credentials[0],
            pidfd=met.control.watch.pidfd if met.control.watch.pidfd >= 0 else None,
            wire=wire,
            watch=met.control.watch,
            by=deadline_after(max(deadline - time.monotonic(), 0)),
        )

    def _wire_address(self, there: Address, theirs: Facts) -> Address:
        """Where it was met; a peer that was met at a unix socket tells where else it listens."""
        if isinstance(there, TcpAddress):
            return there
        return parse_address(str(theirs.links[LinkKind.TCP.value]["address"]))

    def _open_ways(
        self, ours: Facts, peer: Peer, options: ChannelOptions
    ) -> tuple[tuple[Link, ...], dict[str, str]]:
        """The link to the peer's own regions and, where it takes another, that to registered ones;
        and a reason for every other path."""
        kinds = {kind: type(driver) for kind, driver in self._drivers.items()}
        candidates, refused = rank(ours, peer.facts, options.wanted, kinds)
        rejected = {str(path): reason for path, reason in refused.items()}
        submitters = Submitters(
            self._copies,
            self.slots,
            streams=options.streams,
            inline_below=options.inline_below,
            max_transfers_per_batch=options.max_transfers_per_batch,
            pool=options.pool,
        )
        own = self._open_first(candidates, peer, submitters, rejected)
        if own is None:
            reasons = "; ".join(f"{path}: {reason}" for path, reason in rejected.items())
            raise PathRefused(f"no path: {reasons}", peer=peer.name, rejected=rejected)
        ways = [own]
        others = [path for path in foreign(own.path, candidates) if str(path) not in rejected]
        if own.path not in others:
            registered = self._open_first(others, peer, submitters, rejected)
            ways += [registered] if registered is not None else []
        taken = {way.path for way in ways}
        for path in candidates:
            if path not in taken:
                rejected.setdefault(str(path), f"ranks below {own.path}")
        return tuple(ways), rejected

    def _open_first(
        self,
        candidates: Sequence[Path],
        peer: Peer,
        submitters: Submitters,
        rejected: dict[str, str],
    ) -> Link | None:
        """The first candidate that opens; a failed one becomes its own rejection."""
        for path in candidates:
            try:
                return self._drivers[path.link].open(peer, path, submitters)
            except PathRefused as refusal:
                rejected[str(path)] = str(refusal.args[0])
        return None


# Why a connection was lost, in words that mean something to who used its channel.
_SAID_AS_IT_IS = {"link_lost", "silent"}


def _channel_lost(
    submit: Callable[[Callable[[], None]], None],
    channel: weakref.ref[Channel],
    connection: Connection,
) -> None:
    """Its transfers are told at once. The rest waits for quiet, and whoever noticed the loss may be
    one that others wait for: it is done elsewhere."""
    target, cause = channel(), connection.lost
    if target is None or isinstance(cause, ClosedError):
        return  # we closed it ourselves
    text, symbol = "the peer is gone", "connection_lost"
    if cause is not None and cause.cause in _SAID_AS_IT_IS:
        text, symbol = str(cause.args[0]), cause.cause
    gone = PeerError(text, cause=symbol, peer=target.peer, safe_to_retry=False)
    gone.__cause__ = cause
    target.doom(gone)
    submit(partial(_end, target, gone))


def _end(channel: Channel, why: PeerError) -> None:
    try:
        channel.end(why)
    except NotQuiet as error:
        logger.warning("channel to %s: %s", channel.peer, error)
