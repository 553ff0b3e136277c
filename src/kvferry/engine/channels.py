"""An engine's channels: one per peer, path and options, and how each comes to be."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from .. import _core, config
from ..address import Address
from ..address import parse as parse_address
from ..errors import ClosedError, NotQuiet, PathRefused, PeerError, Timeout, UsageError
from ..link import Driver, Facts, Link
from ..path import LinkKind, Path, SubmitterKind
from ..path import parse as parse_path
from ..rpc import Connection, Poller
from ..runtime import HostRuntime
from ..submit import HostSubmitter, InlineSubmitter, SlotPool, Submitter
from .awaiting import Bells
from .channel import Channel
from .connect import Identity, Met, meet
from .deadline import deadline_after
from .negotiate import rank
from .pushes import serve_channel

__all__ = ["Channels"]

logger = logging.getLogger("kvferry.engine")


class _DialLock:
    """Held by whoever connects to one peer over one path; gone when nobody does."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class _ChannelOptions(NamedTuple):
    """What makes two channels to one peer over one path different."""

    streams: int
    inline_below: int

    @classmethod
    def of(
        cls, options: config.Options, streams: int | None, inline_below: int | None
    ) -> _ChannelOptions:
        if streams is None:
            streams = min(options.copy_engines, _core.STREAMS_MAX)
        if not 1 <= streams <= _core.STREAMS_MAX:
            raise UsageError(
                f"streams is {streams}, not from 1 to {_core.STREAMS_MAX}", cause="streams"
            )
        if inline_below is None:
            inline_below = options.inline_below
        if inline_below < 0:
            raise UsageError(f"inline_below is {inline_below}", cause="inline_below")
        return cls(streams, inline_below)


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
    ) -> None:
        self._options = options
        self._poller = poller
        self._runtime = runtime
        self._drivers = drivers
        self._copies = copies
        self._bells = bells
        self._local = local
        self.slots = SlotPool(runtime.stream, self._settle_quiet_ones)
        self._lock = threading.Lock()
        self._closed = False
        self._dialing: weakref.WeakValueDictionary[object, _DialLock] = (
            weakref.WeakValueDictionary()
        )
        self._every: set[Channel] = set()  # until it has ended, whoever else forgets it
        self._known: dict[tuple[int, tuple[Path, ...], _ChannelOptions], Channel] = {}
        self._epochs: dict[Address, int] = {}  # who was met at an address last

    def connect(
        self,
        us: Identity,
        address: str,
        path: str | Path,
        timeout: float,
        streams: int | None,
        inline_below: int | None,
    ) -> Channel:
        """See Engine.connect."""
        deadline_after(timeout)  # refuses one that is none
        there = parse_address(address)
        wanted = parse_path(path)
        options = _ChannelOptions.of(self._options, streams, inline_below)
        deadline = time.monotonic() + timeout
        dialing = self._dial_lock((there, wanted, options))
        if not dialing.lock.acquire(timeout=timeout):
            raise Timeout(
                "somebody else has been connecting there", cause="connect_timeout", peer=str(there)
            )
        try:
            known = self._find(self._epochs.get(there), wanted, options)
            return known or self._connect(us, there, wanted, options, deadline)
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
        wanted: tuple[Path, ...],
        options: _ChannelOptions,
        deadline: float,
    ) -> Channel:
        met = meet(us, there, self._poller, self._runtime, deadline, self._options.call_timeout)
        self._epochs[there] = met.facts.epoch
        with ExitStack() as undo:
            undo.callback(met.control.close)
            known = self._find(met.facts.epoch, wanted, options)
            if known is not None:
                return known
            link, path, rejected = self._open_link(us.facts, met, wanted, options)
            channel = Channel(
                met.control,
                link,
                path,
                rejected,
                self._copies,
                self._local,
                self._bells,
                self._options.quiet_grace,
                self._ended,
            )
            undo.callback(channel.close)
            met.connection.serve = serve_channel(channel)
            met.connection.on_lost = partial(_channel_lost, weakref.ref(channel))
            channel.refresh(max(deadline - time.monotonic(), 0))
            with self._lock:
                if self._closed:
                    raise ClosedError("the engine was closed", cause="closed")
                self._every.add(channel)
                self._known[met.facts.epoch, wanted, options] = channel
            undo.pop_all()
        return channel

    def _find(
        self, epoch: int | None, wanted: tuple[Path, ...], options: _ChannelOptions
    ) -> Channel | None:
        known = self._known.get((epoch, wanted, options)) if epoch is not None else None
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

    def _settle_quiet_ones(self) -> None:
        for channel in self.live():
            channel.settle_quiet_ones()

    def _open_link(
        self, ours: Facts, met: Met, wanted: tuple[Path, ...], options: _ChannelOptions
    ) -> tuple[Link, Path, dict[str, str]]:
        kinds = {kind: type(driver) for kind, driver in self._drivers.items()}
        candidates, refused = rank(ours, met.facts, wanted, kinds)
        rejected = {str(path): reason for path, reason in refused.items()}
        peer, epoch = met.control.peer, met.control.epoch
        for path in candidates:
            try:
                link = self._drivers[path.link].open(peer, epoch, self._submitter(path, options))
            except PathRefused as refusal:
                rejected[str(path)] = str(refusal.args[0])
            else:
                return link, path, rejected
        reasons = "; ".join(f"{path}: {reason}" for path, reason in rejected.items())
        raise PathRefused(
            f"no path: {reasons}",
            peer=peer,
            rejected=rejected,
        )

    def _submitter(self, path: Path, options: _ChannelOptions) -> Submitter:
        if path.submitter is SubmitterKind.INLINE:
            return InlineSubmitter(self._copies)
        return HostSubmitter(
            self._copies, self.slots, streams=options.streams, inline_below=options.inline_below
        )


def _channel_lost(channel: weakref.ref[Channel], connection: Connection) -> None:
    target, cause = channel(), connection.lost
    if target is None or isinstance(cause, ClosedError):
        return  # we closed it ourselves
    gone = PeerError(
        "the peer is gone", cause="connection_lost", peer=target.peer, safe_to_retry=False
    )
    gone.__cause__ = cause
    try:
        target.end(gone)
    except NotQuiet as error:
        logger.warning("channel to %s: %s", target.peer, error)
