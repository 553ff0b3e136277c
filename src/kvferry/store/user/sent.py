"""What was put at other nodes a moment ago, which no directory may have heard of yet."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..answers import Digests
from .node_at import NodeAt

__all__ = ["Sent"]

LASTS = 2.0  # seconds; by then a node has told of it
MOST = 1 << 16  # keys


class _Lot(NamedTuple):
    until: float
    node: NodeAt
    names: frozenset[bytes]


class Sent:
    """The last of it, for two seconds. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lots: deque[_Lot] = deque()
        self._count = 0

    def __bool__(self) -> bool:
        if not self._lots:
            return False
        with self._lock:
            self._forget()
            return bool(self._lots)

    def note(self, node: NodeAt, digests: Digests) -> None:
        names = frozenset(_names(digests))
        with self._lock:
            self._lots.append(_Lot(self._clock() + LASTS, node, names))
            self._count += len(names)
            self._forget()

    def ways(self, digests: Digests) -> Iterator[tuple[NodeAt, NDArray[np.intp]]]:
        """Each node, with which of these were put there."""
        with self._lock:
            self._forget()
            lots = list(self._lots)
        names = _names(digests)
        for lot in lots:
            rows = np.flatnonzero([name in lot.names for name in names])
            if len(rows):
                yield lot.node, rows

    def _forget(self) -> None:
        now = self._clock()
        while self._lots and (self._lots[0].until <= now or self._count > MOST):
            self._count -= len(self._lots.popleft().names)


def _names(digests: Digests) -> list[bytes]:
    raw = digests.tobytes()
    return [raw[at : at + 16] for at in range(0, len(raw), 16)]
