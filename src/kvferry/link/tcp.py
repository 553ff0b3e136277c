"""The peer's threads place and serve the bytes, over TCP connections of a channel's own: wires.

here       |## caller's memory ##|
               | frames of a wire: places and bytes, many small blocks in one
owner      |#### region ####|                 a native thread looks each place up, then moves

Nothing is mapped, and any memory that was registered is reached.
"""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Callable, Sequence

from .. import _core
from .._core import CopyEngines, Descriptors, Done, SpanTable
from ..errors import ClosedError, Full, NoMemory, PathRefused, PeerError, RightsError, Timeout
from ..memory import Region, RemoteRegion
from ..path import LinkKind, Path, Staging
from ..runtime import Access, CallerStream, HostStream
from ..submit import Slot, Submitters
from .base import Driver, Facts, Link, Owner, Peer, Published
from .pooled import PooledLink
from .registered import attach_registered, publish_registered

__all__ = ["TcpDriver"]

WIRES_LIMIT = 512
WIDE_BYTES = 8 << 20  # below, one wire carries a batch as fast as several


class WireStream(HostStream, CallerStream):
    """A stream all of whose runs go over one wire, which ends with it; through `pool` if any."""

    __slots__ = ("_copy_inline", "_mover", "_wire")

    def __init__(
        self,
        engines: CopyEngines,
        wire: _core.Wire,
        pool: _core.BouncePool | None,
        devices: SpanTable | None,
    ) -> None:
        self._mover = wire if pool is None else _core.Bounce(wire, pool, devices)
        super().__init__(engines, self._mover)
        self._copy_inline = engines.copy_inline
        self._wire = wire

    def copy_inline(self, op: int, d: Descriptors, done: Done, deadline: int | None) -> None:
        d.via(self._mover)
        self._copy_inline(op, d, done, deadline)

    @property
    def dead(self) -> bool:
        """Did the wire end, or lose step with the peer?"""
        return self._wire.dead

    def kill(self) -> None:
        """End the connection: what is under way is lost."""
        self._wire.kill()

    def forked(self) -> None:
        self._wire.forked()


class Wires:
    """The threads that carry out runs, one for every wire there is: a peer that stands still holds
    up nobody else's. Thread-safe.
    """

    def __init__(self, devices: SpanTable | None) -> None:
        self.engines = CopyEngines(0)
        self.devices = devices
        self._lock = threading.Lock()
        self._closed = False
        self._streams: weakref.WeakSet[WireStream] = weakref.WeakSet()

    def stream(
        self,
        dial: Callable[[int | None], socket.socket],
        pool: _core.BouncePool | None,
        deadline: int | None,
    ) -> WireStream:
        """Over a new wire. Blocks and raises as `dial` does; ClosedError, Full, NoMemory."""
        sock = dial(deadline)
        with sock, self._lock:
            if self._closed:
                raise ClosedError("the engine was closed", cause="closed")
            if len(self._streams) >= WIRES_LIMIT:
                raise Full(f"{WIRES_LIMIT} wires are open", cause="no_wire")
            code = self.engines.grow(len(self._streams) + 1)
            if code:
                raise NoMemory(
                    f"starting threads for wires: {os.strerror(code)}", cause="no_threads"
                )
            stream = WireStream(self.engines, _make_wire(sock), pool, self.devices)
            self._streams.add(stream)
        return stream

    def close(self) -> None:
        """End every wire and every thread; idempotent."""
        with self._lock:
            self._closed = True
            for stream in list(self._streams):
                stream.kill()
        self.engines.stop()

    def forked(self) -> None:
        """In a forked child: close inherited descriptors."""
        for stream in list(self._streams):
            stream.forked()


class TcpDriver(Driver):
    """Dials wires to peers, and serves theirs.

    spans      what which peers may do with this process's memory
    local      device memory of this process, until it is unmapped; None: it has none
    addresses  where the engine listens, for those who look for this link
    """

    kind = LinkKind.TCP

    def __init__(self, spans: SpanTable, local: SpanTable | None = None) -> None:
        self.addresses: Sequence[str] = ()
        self._wires = Wires(local)
        self._server = _core.WireServer(spans)
        self._lock = threading.Lock()
        self._owners: dict[Owner, int] = {}
        self._last = 0

    def facts(self) -> dict[str, int | str]:
        tcp = [each for each in self.addresses if not each.startswith("unix:")]
        return {"address": tcp[0]} if tcp else {}

    @staticmethod
    def refuse(ours: Facts, theirs: Facts) -> str | None:
        told = theirs.links.get(LinkKind.TCP)
        if told is None:
            return "the peer does not offer it"
        if not told.get("address"):
            return "the peer listens on no tcp address"
        return None

    def publish(self, region: Region, to: Facts, most: Access = Access.WRITE) -> Published:
        return publish_registered(region, most)

    def open(self, peer: Peer, path: Path, submitters: Submitters) -> Link:
        try:
            return TcpLink(peer, path, submitters, self._wires)
        except (PeerError, RightsError, Timeout, NoMemory, Full, OSError) as error:
            reason = f"no wire to the peer: {error}"
            raise PathRefused(reason, peer=peer.name, rejected={str(path): reason}) from error

    def serve(self, sock: socket.socket, owner: Owner) -> None:
        # Whoever dismisses the owner meanwhile must find the wire: it begins under the lock, too.
        # After that none begins: bytes may be waiting in it for memory they have no right to now.
        with sock, self._lock:
            if owner.lost:
                raise PeerError("the wire's channel is over", cause="not_served")
            number = self._owners.get(owner)
            if number is None:
                self._last += 1
                number = self._owners[owner] = self._last
            epoch, tenant, rights = owner.visitor
            writes = rights is Access.WRITE
            code = self._server.serve(sock.detach(), number, epoch, tenant, writes)
        if code:
            raise PeerError(f"the wire is not served: {os.strerror(code)}", cause="not_served")

    def dismiss(self, owner: Owner) -> None:
        with self._lock:
            number = self._owners.get(owner)
        if number is not None:
            self._server.dismiss(number)  # also while another does: both return when it is done
            with self._lock:
                self._owners.pop(owner, None)

    def close(self) -> None:
        self._server.close()
        self._wires.close()

    def forked(self) -> None:
        self._server.forked()
        self._wires.forked()


class TcpLink(PooledLink):
    """Has wires of its own, as many as it had transfers at once."""

    def __init__(self, peer: Peer, path: Path, submitters: Submitters, wires: Wires) -> None:
        self._pool = submitters.pool.make() if path.staging is Staging.BOUNCE else None
        self._stages = self._pool is not None and wires.devices is not None

        def wire(deadline: int | None) -> WireStream:
            return wires.stream(peer.wire, self._pool, deadline)

        super().__init__(
            peer,
            path,
            wires.engines,
            submitters.slots.another(wire),
            streams=submitters.streams,
            wide=WIDE_BYTES,
            inline_below=submitters.inline_below,
        )
        # The first wire shows whether the path works.
        self._slots.give(self._slots.take(1, peer.by))

    def attach(self, published: Published) -> RemoteRegion:
        return attach_registered(published, self.peer, self.epoch, self.path)

    def detach(self, region: RemoteRegion) -> None:
        """Nothing was mapped."""

    def submit(
        self,
        op: int,
        d: Descriptors,
        done: Done,
        deadline: int | None = None,
        patient: bool = False,
    ) -> Slot | None:
        if d.opaque and not self._stages:
            raise self._untouchable()
        return super().submit(op, d, done, deadline, patient)

    def close(self) -> None:
        super().close()
        self._pool = None  # its memory goes now, whoever still knows of this link


def _make_wire(sock: socket.socket) -> _core.Wire:
    """Over the socket, which is its own from then on. Raises NoMemory, and it is not."""
    try:
        wire = _core.Wire(sock.fileno())
    except MemoryError as error:
        raise NoMemory("no memory for a wire", cause="no_memory") from error
    sock.detach()
    return wire
