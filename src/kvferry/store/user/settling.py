"""Being sure that others find what was put."""

from __future__ import annotations

import threading
import time

from ... import log
from ...errors import Error
from .home import Home
from .node_at import NodeAt

__all__ = ["Touched", "settled"]

logger = log.get("kvferry.store")


class Touched:
    """Other nodes at which something was put or removed since they were settled. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[NodeAt, int] = {}  # how often, so far

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def note(self, node: NodeAt) -> None:
        """It has been, just now."""
        with self._lock:
            self._nodes[node] = self._nodes.get(node, 0) + 1

    def seen(self) -> dict[NodeAt, int]:
        with self._lock:
            return dict(self._nodes)

    def drop(self, node: NodeAt) -> None:
        """It is there no more."""
        with self._lock:
            self._nodes.pop(node, None)

    def forget(self, node: NodeAt, seen: int) -> None:
        """It is settled, or has nothing any more, as far as was seen."""
        with self._lock:
            if self._nodes.get(node) == seen:
                del self._nodes[node]


def settled(own: Home, touched: Touched, timeout: float, alone: bool) -> bool:
    """See Store.settle. Raises as asking the own node does; what other nodes had that are gone
    nobody finds, and needs not to know of."""
    deadline = time.monotonic() + timeout
    if not own.settle(timeout, alone):
        return False
    for node, count in touched.seen().items() if touched else ():
        try:
            if not node.home.settle(max(deadline - time.monotonic(), 0), alone):
                return False
        except Error as error:
            logger.info("%s settled nothing: %s", node.address, error)
        touched.forget(node, count)
    return True
