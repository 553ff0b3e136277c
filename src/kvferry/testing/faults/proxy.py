"""A proxy between two engines whose parameter is the fault. It moves bytes and decides nothing.

    client -> | units -> case? -> steps -> | -> server       Way.TO_SERVER
           <- | <- steps <- case? <- units | <-              Way.TO_CLIENT

Units are the frames of the handshake and of control connections; what follows the handshake on
other connections is cut as it is received. A case strikes one unit of one connection, once.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable

from ...address import Address, TcpAddress, UnixAddress
from ...address import parse as parse_address
from ...engine import messages
from ...errors import PeerError, Timeout
from ...rpc import dial, dial_abstract, listen, listen_abstract
from .flow import Flow
from .mutations import Step, mutate
from .units import HANDSHAKE, Case, Way, purpose_of

__all__ = ["Proxy"]

DIAL_SECONDS = 5.0


class Proxy:
    """Stands where `listener` listens, in a thread of its own, and speaks for whom `dialled` meets.

    case  what goes wrong on connections accepted from now on; None: nothing. It strikes once and
          is None then.
    """

    def __init__(self, listener: socket.socket, dialled: Callable[[], socket.socket]) -> None:
        self.case: Case | None = None
        self.name = listener.getsockname()
        self._listener = listener
        self._dialled = dialled
        self._links: list[_Link] = []
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="kvferry-proxy", daemon=True)
        self._thread.start()

    @classmethod
    def to(cls, address: str, at: str = "127.0.0.1:0") -> Proxy:
        """Between callers of `at` and the engine at `address`."""
        there = parse_address(address)
        listener = listen(parse_address(at, listening=True))
        return cls(listener, lambda: dial(there, DIAL_SECONDS))

    @classmethod
    def at_door(cls, door: bytes) -> Proxy:
        """The same between abstract unix sockets."""
        return cls(listen_abstract(), lambda: dial_abstract(door, DIAL_SECONDS))

    @property
    def address(self) -> str:
        """Where callers meet it, as Engine.connect takes it; not of one at a door."""
        where: Address = (
            UnixAddress(self.name) if isinstance(self.name, str) else TcpAddress(*self.name[:2])
        )
        return str(where)

    @property
    def connections(self) -> int:
        """How many it carries."""
        return len(self._links)

    def close(self) -> None:
        """Ends every connection and the thread."""
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        for link in self._links:
            link.close()
        self._listener.close()
        if isinstance(self.name, str) and self.name:
            os.unlink(self.name)
        os.close(self._wake)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            poll.register(self._listener, select.POLLIN)
            now = time.monotonic()
            patience = [flow.watch(poll, now) for link in self._links for flow in link.flows]
            ready = dict(poll.poll(1000 * min(patience, default=60.0)))
            if self._wake in ready:
                return
            if self._listener.fileno() in ready:
                self._accept()
            for link in self._links:
                link.turn(ready, time.monotonic())
            self._links = [link for link in self._links if not link.over]

    def _accept(self) -> None:
        client = self._listener.accept()[0]
        try:
            server = self._dialled()
        except (PeerError, Timeout):
            client.close()
            return
        self._links.append(_Link(self, client, server))


class _Link:
    """One connection: two flows, one each way."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy = proxy
        self.purpose = ""  # until the client has said hello
        self.over = False
        self._sockets = (client, server)
        for sock in self._sockets:
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.flows = (
            Flow(Way.TO_SERVER, client, server, self),
            Flow(Way.TO_CLIENT, server, client, self),
        )

    def turn(self, ready: dict[int, int], now: float) -> None:
        try:
            for flow in self.flows:
                flow.turn(ready, now)
        except OSError:
            self.close()
        if all(flow.ended for flow in self.flows):
            self.close()

    def steps(self, way: Way, number: int, unit: bytes) -> list[Step]:
        """What is done with a unit."""
        if not self.purpose:
            self.purpose = purpose_of(unit)
        case = self.proxy.case
        if case is None or not case.strikes(way, number, self.purpose):
            return [unit]
        self.proxy.case = None
        return mutate(case.mutation, unit, case.seed)

    def framed(self, units: int) -> bool:
        return self.purpose in ("", messages.CONTROL) or units < HANDSHAKE

    def close(self) -> None:
        if self.over:
            return
        self.over = True
        for flow in self.flows:
            flow.drop()
        for sock in self._sockets:
            sock.close()
