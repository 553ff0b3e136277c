"""Tells the directory what a node has."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from ... import _core, log
from ...address import TcpAddress, parse
from ...errors import Error
from ..clock import now
from ..messages import column_of, digests_in
from . import messages as m
from .acknowledged import Acknowledged
from .copier import Copier
from .directed import Directed
from .draining import Draining, Moved
from .hosted import ANYWHERE
from .journal import Changes, Journal, wanted_of
from .line import Line

if TYPE_CHECKING:
    from ..node import Node

__all__ = ["Herald", "begin"]

logger = log.get("kvferry.directory")

# ns from one round of reports to the next, unless somebody waits for it: what comes meanwhile goes
# together.
GAP = 10_000_000
RETRY = 0.1  # seconds, after nobody could be told
TIMEOUT = 2.0
PIECE = 1 << 15  # slots or keys of one report


class Herald:
    """Enrolls a node, says that it lives, and reports what came and went as soon as there is some,
    in a thread of its own.

    Whenever the directory is another, or has missed something, all is told anew, from the index,
    a piece at a time. The node's lock is held for a piece; nobody else's is ever waited for.

    wanted  of the node: where there are directories, what fails together with it
    copier  carries their orders out
    """

    def __init__(self, node: Node, wanted: Directed, copier: Copier) -> None:
        self.node = node
        self.line = Line(node.engine, wanted.addresses, TIMEOUT)
        self.copier = copier
        self._domain = wanted.domain or node.engine.facts.boot or socket.gethostname()
        self._began = time.time_ns()
        self._journal = Journal(node.clerk.tell)
        self._term = 0  # where the node is enrolled; 0: nowhere
        self._beat = 0  # ns within which to be heard of
        self._due = 0  # when the next beat is
        self._seq = 0
        self._slot: int | None = None  # up to which the index has been told; None: all of it
        self._unheard: deque[m.Report] = deque()
        self._written = 0  # news that is acknowledged with all that is unheard
        self._known = Acknowledged()
        self._hurried = threading.Event()  # somebody waits for the next round
        self._alone = 0  # until when nobody is there who could ask for what is here
        self._unseen = 0  # until when somebody may believe that this node is not there
        self._over = threading.Event()
        self._asking = threading.Lock()  # the herald's own: to speak in order
        with node.clerk:
            node.witnesses.append(self._journal)
        self._thread = threading.Thread(target=self._run, name="kvferry-herald", daemon=True)
        self._thread.start()

    @property
    def enrolled(self) -> bool:
        """Does the directory know the node, and all that it has, and everybody that it is there?"""
        return self._known.covers(0) and not self._unheard and now() >= self._unseen

    @property
    def waiting(self) -> int:
        """Threads that wait in `settle`."""
        return self._known.waiting

    def settle(self, until: int, alone: bool) -> bool:
        """Has the directory acknowledged all that came and went up to now? Waits for it until then,
        ns. alone: also while nobody is there who could ask. Thread-safe."""
        if not alone and now() < self._alone:
            return True
        with self.node.clerk:
            self.node.catalog.take_in()
            count = self._journal.noted
        if self._known.covers(count):
            return True
        self._hurried.set()
        return self._known.wait(count, max(until - now(), 0) / 1e9)

    def drain(self, until: int, hurried: Callable[[], bool]) -> Moved:
        """Take leave, and copy what nobody else has, until then, ns, or until hurried. Blocks."""
        with self._asking, suppress(Error):
            self._ask(m.Leave(self._term, ended=False), m.Heard)
        return Draining(self.node, self.line, self.copier).run(until, hurried)

    def close(self) -> None:
        """Say that the node has ended, if there is somebody to hear it. Idempotent."""
        if self._over.is_set():
            return
        self._over.set()
        self._hurried.set()
        self.node.clerk.tell()
        self._known.close()
        self._thread.join()
        self.copier.close()
        with self._asking, suppress(Error):
            if self._term:
                self._ask(m.Leave(self._term, ended=True), m.Heard)

    # ---- rounds ----

    def _run(self) -> None:
        while not self._over.is_set():
            began = now()
            try:
                with self._asking:
                    self._round()
                self._wait(began + GAP)
            except Error as error:
                logger.debug("the directory was not told: %s", error)
                self._over.wait(RETRY)
            except Exception:  # the next round comes
                logger.exception("a round of the herald failed")
                self._over.wait(RETRY)

    def _wait(self, rest: int) -> None:
        """Until then, unless somebody is in a hurry, and until there is news or a beat is due."""
        self._hurried.wait(max(rest - now(), 0) / 1e9)
        self._hurried.clear()
        if self._term and not self._over.is_set():
            self.node.clerk.news(_core.now() + max(self._due - now(), 0))

    def _round(self) -> None:
        if not self._term:
            self._enroll()
        while not self._over.is_set() and self._term and self._tell():
            if now() >= self._due:
                self._say_alive()
        if self._term and now() >= self._due:
            self._say_alive()

    def _enroll(self) -> None:
        with self.node.clerk:
            self._journal.take()
            free = self.node.catalog.usage().free
        self._slot, self._seq = 0, 0
        hello = m.Enroll(
            version=m.VERSION,
            began=self._began,
            address=reachable(self.node.engine.addresses, self.line.addresses),
            domain=self._domain,
            capacity=self.node.pool.length,
            free=free,
            keys=self.node.slots,
            disk=self.node.tier is not None,
        )
        reply = self.line.ask(hello, m.Enrolled)
        if isinstance(reply, m.Enrolled):
            self._term, self._beat, self._due = reply.term, reply.beat, now() + reply.beat // 2
            self._unseen = now() + reply.after
            self.copier.forget()
            logger.info("known to the directory %s as %d", self.line.where(), reply.number)

    def _tell(self) -> bool:
        """One report; False: there is no more to tell for now."""
        if not self._unheard:
            self._write_down()
        if not self._unheard:
            return False
        heard = self._hear(self._unheard[0])
        if heard is not None and heard.void:
            void = digests_in(heard.void)
            self.node.take_out(void)
            logger.info("%d objects were removed while this node was away", len(void))
        if self._unheard:  # else all is to be told anew
            self._unheard.popleft()
            if not self._unheard and self._slot is None:
                self._known.reach(self._written)
        return bool(self._unheard) or self._slot is not None

    def _write_down(self) -> None:
        """Reports of what happened, and of a piece of the index as it is after that."""
        with self.node.clerk:
            self.node.catalog.take_in()
            self._written = self._journal.noted
            news = self._journal.take()
            piece = [] if self._slot is None or news is None else [self._piece(self._slot)]
        if news is None:
            logger.info("more has changed than can be told: all is told anew")
            self._forget()
            return
        changes = Changes.of([news, *piece])
        whole = bool(piece) and self._slot is None
        for first in range(0, max(len(changes.digests), whole), PIECE):
            digests, wanted = (column[first : first + PIECE] for column in changes)
            last = whole and first + PIECE >= len(changes.digests)
            columns = column_of(digests), column_of(wanted)
            self._unheard.append(m.Report(self._term, self._seq, last, *columns))
            self._seq += 1

    def _piece(self, slot: int) -> Changes:
        """With the node's lock."""
        entries = self.node.scan(slot, PIECE)
        entries = entries[~entries["marked"]]
        slot += PIECE
        self._slot = None if slot >= self.node.slots else slot
        return Changes(np.array(entries["digest"]), wanted_of(entries))

    def _say_alive(self) -> None:
        with self.node.clerk:
            free = self.node.catalog.usage().free
        heard = self._hear(m.Beat(self._term, free, self.copier.room))
        self._due = now() + self._beat // 2
        if heard is not None:
            self.copier.order(heard.orders)

    def _hear(self, request: m.Request) -> m.Heard | None:
        asked = now()
        heard = self._ask(request, m.Heard)
        self._alone = asked + m.ALONE if heard is not None and heard.alone else 0
        return heard

    def _ask(self, request: m.Request, kind: type[m.R]) -> m.R | None:
        """None: the directory wants all anew."""
        reply = self.line.ask(request, kind)
        if isinstance(reply, kind):
            return reply
        self._forget()
        return None

    def _forget(self) -> None:
        """The directory knows nothing of the node."""
        self._term = 0
        self._unheard.clear()
        self._known.void()


def begin(node: Node, copier: Copier) -> Herald | None:
    """Of a node that others reach, and that knows of a directory."""
    wanted = node.directory
    return Herald(node, wanted, copier) if wanted.addresses and node.engine.addresses else None


def reachable(addresses: tuple[str, ...], towards: tuple[str, ...]) -> str:
    """Under which of its addresses others reach an engine: over tcp, if it listens there; where it
    listens everywhere, under that from which it reaches `towards`."""
    tcp = [each for each in map(parse, addresses) if isinstance(each, TcpAddress)]
    if not tcp:
        return addresses[0]
    host = _own_host(towards) if tcp[0].host in ANYWHERE else tcp[0].host
    return str(TcpAddress(host, tcp[0].port))


def _own_host(towards: tuple[str, ...]) -> str:
    """No packet is sent."""
    for other in map(parse, towards):
        if isinstance(other, TcpAddress):
            family = socket.AF_INET6 if ":" in other.host else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                try:
                    probe.connect((other.host, other.port))
                except OSError:
                    continue
                host: str = probe.getsockname()[0]
                return host
    return socket.gethostname()
