"""Copies objects of a node to other nodes, as the directory orders or when the node is drained."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ... import log
from ...address import parse
from ...errors import Error, Timeout
from ..answers import Answer, Answers, Digests
from ..clock import now
from ..messages import digests_in
from ..table import Entries, Words
from ..user.home import Home
from ..user.node_at import NodeAt, join
from ..user.values import Values
from .careful import Careful
from .messages import Order

if TYPE_CHECKING:
    from ..node import Node

__all__ = ["Copier"]

logger = log.get("kvferry.directory")

MOST = 1 << 14  # keys of orders that wait
AT_ONCE = 64  # objects that are leased
BYTES_AT_ONCE = 8 << 20
LEASE = 60_000_000_000
TIMEOUT = 5.0
TARGETS = 64  # nodes that are copied to by turns, and stay joined
USER = 0  # in the catalog: the node itself


class Copier:
    """Carries orders out in a thread of its own, with at most `rate` bytes a second.

    A copy has the time to live that is left, and may be found PRESENT. What cannot be copied is
    not: whoever ordered it sees that it is still lacking.
    """

    def __init__(self, node: Node, rate: int) -> None:
        self._node = node
        self._rate = rate
        self._lock = threading.Lock()
        self._orders: deque[Order] = deque()
        self._waiting = 0
        self._ready = threading.Event()
        self._over = threading.Event()
        self._targets: dict[str, NodeAt] = {}
        self._until = 0  # when the lease on what is being copied is over
        self._turn = threading.Lock()  # copies go one after the other
        self._thread: threading.Thread | None = None
        self.copied = 0  # bytes

    @property
    def room(self) -> int:
        """For so many keys it takes orders."""
        with self._lock:
            return max(MOST - self._waiting, 0)

    def order(self, orders: tuple[Order, ...]) -> None:
        with self._lock:
            for order in orders:
                self._orders.append(order)
                self._waiting += len(order.digests) // 16
            if self._thread is None and self._orders and not self._over.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="kvferry-copier", daemon=True
                )
                self._thread.start()
        self._ready.set()

    def forget(self) -> None:
        """What waits was ordered by a directory that leads no more."""
        with self._lock:
            self._orders.clear()
            self._waiting = 0

    def copy(self, to: str, digests: Digests, paced: bool = True) -> Answers:
        """Of each STORED or PRESENT at the node at this address, ABSENT here, or why it refuses.
        Blocks. Raises what joining and putting raise."""
        answers = np.full(len(digests), Answer.DRAINING, np.uint8)
        with self._turn:
            target = self._target(to)
            for first in range(0, len(digests), AT_ONCE):
                if self._over.is_set():
                    break
                some = slice(first, first + AT_ONCE)
                answers[some] = self._copy(target, digests[some], paced)
        return answers

    def close(self) -> None:
        """Blocks until the copy that is under way is over. Idempotent."""
        self._over.set()
        self._ready.set()
        if self._thread is not None:
            self._thread.join()
        with self._turn:
            for target in self._targets.values():
                target.leave()
            self._targets.clear()

    # ---- steps ----

    def _run(self) -> None:
        while not self._over.is_set():
            self._ready.wait()
            self._ready.clear()
            while (order := self._next()) is not None and not self._over.is_set():
                digests = digests_in(order.digests)
                try:
                    self.copy(order.to.address, digests)
                except Error as error:
                    logger.info("%s takes no copies: %s", order.to.address, error)
                with self._lock:
                    self._waiting = max(self._waiting - len(digests), 0)

    def _next(self) -> Order | None:
        with self._lock:
            return self._orders.popleft() if self._orders else None

    def _target(self, address: str) -> NodeAt:
        if address not in self._targets:
            parse(address)
            while len(self._targets) >= TARGETS:
                self._targets.pop(next(iter(self._targets))).leave()

            def joining() -> Home:
                return Careful(join(self._node.engine, address), self._check)

            self._targets[address] = NodeAt(address, joining, TIMEOUT)
        return self._targets[address]

    def _check(self) -> None:
        """Raises Timeout when what was read may not be what it was any more."""
        if now() >= self._until:
            raise Timeout("the lease was over before the copy", cause="timeout")

    def _copy(self, target: NodeAt, digests: Digests, paced: bool) -> Answers:
        answers = np.full(len(digests), Answer.ABSENT, np.uint8)
        catalog, clerk = self._node.catalog, self._node.clerk
        self._node.fetch(digests)
        with clerk:
            asked = now()
            leased = catalog.lease(USER, digests, asked, asked + LEASE)
            found = np.flatnonzero(leased.answers == Answer.FOUND)
            entries = leased.entries[found]
            moments = catalog.moments()[entries["slot"].astype(np.int64)]
        try:
            values = self._values(entries, moments, asked)
            self._until = leased.until
            for some in _portions(values.lengths):
                answers[found[some]] = target.both[1].put(values.some(some))
                self._pause(int(values.lengths[some].sum()), paced)
        finally:
            with clerk:
                catalog.release(USER, leased.ticket)
        return answers

    def _values(self, entries: Entries, moments: Words, asked: int) -> Values:
        pool = memoryview(self._node.pool)
        begins, lengths = entries["offset"].tolist(), entries["length"].tolist()
        left = np.where(moments == 0, 0, np.maximum(moments.astype(np.int64) - asked, 1))
        return Values(
            np.ascontiguousarray(entries["digest"]),
            [pool[at : at + n] for at, n in zip(begins, lengths, strict=True)],
            np.ascontiguousarray(entries["length"]),
            None,
            left if left.any() else None,
            np.ascontiguousarray(entries["attrs"]),
        )

    def _pause(self, copied: int, paced: bool) -> None:
        self.copied += copied
        if paced:
            self._over.wait(copied / self._rate)


def _portions(lengths: Words) -> Iterator[NDArray[np.int64]]:
    """Rows, in order, of about so many bytes."""
    ends = lengths.cumsum() // BYTES_AT_ONCE
    for portion in np.unique(ends).tolist():
        yield np.flatnonzero(ends == portion)
