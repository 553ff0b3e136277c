"""A driver's connections to other HIXL engines: one to each, whoever uses it."""

from __future__ import annotations

from ... import _core
from ...errors import ClosedError, PeerError, Timeout
from .connection import HixlConnection
from .memory import LocalMemory
from .module import Hixl
from .requests import HixlRequests

__all__ = ["HixlConnections"]


class HixlConnections:
    """Those of one driver, by the name of the other engine. Thread-safe."""

    def __init__(self, hixl: Hixl, memory: LocalMemory, requests: HixlRequests) -> None:
        self._hixl = hixl
        self._memory = memory
        self._requests = requests
        self._changed = requests.changed
        self._known: dict[str, HixlConnection] = {}

    def share(self, remote: str, peer: str, epoch: int, deadline: int | None) -> HixlConnection:
        """The connection to `remote`, made if there is none; its caller releases it.

        Blocks until the deadline at most. Raises Timeout, or what HIXL refuses with.
        """
        known = self._known.get(remote)
        if known is not None and known.epoch != epoch:
            known.cut(PeerError("the peer was started anew", cause="epoch", peer=known.peer))
        connection, fresh = self._find_or_add(remote, peer, epoch, deadline)
        if fresh:
            connection.connect(deadline)
        return connection

    def release(self, connection: HixlConnection) -> None:
        """The last one disconnects."""
        with self._changed:
            connection.links -= 1
            last = not connection.links
        if last:
            text = "every channel over it was closed"
            connection.close(ClosedError(text, cause="closed", peer=connection.peer))

    def close(self) -> None:
        """Disconnect all."""
        for connection in list(self._known.values()):
            connection.close(ClosedError("the engine was closed", cause="closed"))

    def _find_or_add(
        self, remote: str, peer: str, epoch: int, deadline: int | None
    ) -> tuple[HixlConnection, bool]:
        with self._changed:
            while (known := self._usable(remote, epoch)) is None and remote in self._known:
                left = None if deadline is None else (deadline - _core.now()) / 1e9
                if left is not None and left <= 0:
                    raise Timeout(
                        f"the last connection to the HIXL engine {remote} has not ended yet",
                        cause="connect_timeout",
                        peer=peer,
                    )
                self._changed.wait(left)
            if known is not None:
                known.links += 1
                return known, False
            made = HixlConnection(remote, peer, epoch, self._hixl, self._memory, self._requests)
            self._known[remote] = made
            return made, True

    def _usable(self, remote: str, epoch: int) -> HixlConnection | None:
        """With the books: one that may be shared. What is apart is forgotten."""
        known = self._known.get(remote)
        if known is not None and known.apart:
            del self._known[remote]
        usable = known is not None and known.over is None and not known.connecting
        return known if usable else None
