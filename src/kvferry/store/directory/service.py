"""A directory at work: its service, and the thread that sees who is silent."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ... import log
from ...engine import Caller, Engine
from ...errors import PeerError, RightsError, UsageError
from ...runtime import Access
from ..clock import now
from ..messages import column_of, words_in
from ..user.namespace import Namespace
from . import messages as m
from .directory import ROWS, SPANS, Directory
from .following import Follower
from .lead import Alone, Lead
from .listing import pages
from .membership import Spans

__all__ = ["Service"]

logger = log.get("kvferry.directory")

TICKS = 10  # rounds in the time within which a node should be heard of
TENANT = ""

# Who may not write is no node.
_OF_NODES = m.Enroll, m.Beat, m.Report, m.Leave
_OF_WRITERS = *_OF_NODES, m.Name


class Service:
    """Answers nodes and users from an engine until it is closed.

    lead   says whether it is this directory that answers; by default it always is
    rows   keys that it remembers at most
    clock  ns; of the machine's start by default
    names  what keys are called is kept, too, as users tell it

    A term has a table of its own, which begins empty: nodes tell what they have. Its thread owns
    the lead and closes it.
    """

    def __init__(
        self,
        engine: Engine,
        lead: Lead | None = None,
        *,
        rows: int = ROWS,
        spans: Spans = SPANS,
        clock: Callable[[], int] = now,
        names: bool = False,
    ) -> None:
        if rows < 1:
            raise UsageError(f"a directory of {rows} keys is none", cause="bad_size")
        self.engine = engine
        self._lead: Lead = lead or Alone(engine.addresses)
        self._rows, self._names = rows, names
        self._spans = spans.check()
        self._clock = clock
        self._lock = threading.Lock()
        self._directories: dict[str, Directory] = {}  # by tenant, all of one term
        self.page = ""  # where figures are shown by HTTP
        self._requests: Counter[type] = Counter()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tend, name="kvferry-directory", daemon=True)
        engine.serve_callers(m.SERVICE, self._serve, readers=True)
        self._thread.start()

    def figures(self) -> dict[str, int]:
        """What there is to be seen: nodes by state, keys, places, memory in bytes. Nothing where
        another one leads."""
        with self._lock:
            return self._of(TENANT).figures() if self._lead.leads else {}

    def requests(self) -> dict[str, int]:
        """How many of each kind were answered since it began: "beat", "lookup" and so on."""
        with self._lock:
            return {kind.__name__.lower(): count for kind, count in self._requests.items()}

    def names(self, namespace: str | None = None) -> Iterator[list[str | bytes]]:
        """Keys of a namespace, page by page. Raises UsageError (names) where none are kept, and
        PeerError where another one leads."""
        return pages(self._ask, Namespace(namespace).space)

    def follower(self) -> Follower:
        """Tells what comes and goes, from what is there on, without the engine. Its steps raise
        PeerError where another one leads."""
        return Follower(self._ask)

    def close(self) -> None:
        """Whoever asks from now on is refused. Idempotent. The engine stays open."""
        self._over.set()
        self._thread.join()
        self._lead.close()

    # ---- requests ----

    def _serve(self, caller: Caller, body: bytes) -> bytes:
        if self._over.is_set():
            raise PeerError("the directory is closed", cause="closed")
        request = m.decode_request(body)
        if caller.rights is not Access.WRITE and isinstance(request, _OF_WRITERS):
            raise RightsError("the token permits to read alone", cause="read_only")
        if (led := self._led()) is not None:
            return m.encode(led)
        reply = self._answer(caller.epoch, request)
        if isinstance(reply, m.Roster):
            reply = msgspec.structs.replace(reply, page=self.page)
        return m.encode(self._led() or reply)  # the lead may have ended before it was decided

    def _answer(self, epoch: int, request: m.Request) -> m.Reply:
        verb = _VERBS[type(request)]
        with self._lock:
            self._requests[type(request)] += 1
            return verb(self._of(TENANT), epoch, request, self._clock())

    def _ask(self, request: m.Request, kind: type[m.R]) -> m.R:
        """In this process."""
        reply = self._led() or self._answer(0, request)
        if not isinstance(reply, kind):
            raise PeerError("another directory leads", cause="no_directory")
        return reply

    def _led(self) -> m.Led | None:
        """What is answered when it is another one that leads."""
        return None if self._lead.leads else m.Led(self._lead.leader)

    def _of(self, tenant: str) -> Directory:
        """Of this term."""
        term = self._lead.term
        if any(each.term != term for each in self._directories.values()):
            self._directories.clear()
        found = self._directories.get(tenant)
        if found is None:
            found = Directory(
                term, self._clock(), rows=self._rows, spans=self._spans, names=self._names
            )
            self._directories[tenant] = found
        return found

    # ---- rounds ----

    def _tend(self) -> None:
        while not self._over.wait(self._spans.beat / TICKS / 1e9):
            try:
                self._sweep()
            except Exception:  # the next round comes
                logger.exception("a round failed")

    def _sweep(self) -> None:
        with self._lock:
            if not self._lead.leads:
                self._directories.clear()
                return
            dead = [each for it in self._directories.values() for each in it.sweep(self._clock())]
        for member in dead:
            logger.warning("%s is dead", member.name)


def _enroll(it: Directory, epoch: int, request: m.Enroll, now: int) -> m.Reply:
    return it.enroll(epoch, request, now)


def _beat(it: Directory, epoch: int, request: m.Beat, now: int) -> m.Reply:
    orders = it.beat(epoch, request.term, request.free, request.room, now)
    return m.Again() if orders is None else m.Heard(orders, alone=it.alone(now))


def _report(it: Directory, epoch: int, request: m.Report, now: int) -> m.Reply:
    void = it.report(epoch, request, now)
    return m.Again() if void is None else m.Heard(void=column_of(void), alone=it.alone(now))


def _leave(it: Directory, epoch: int, request: m.Leave, now: int) -> m.Reply:
    return m.Heard() if it.leave(epoch, request.term, request.ended, now) else m.Again()


def _lookup(it: Directory, epoch: int, request: m.Lookup, now: int) -> m.Reply:
    digests = m.few_digests_in(request.digests)
    it.asked(epoch, request.own, now)
    return it.lookup(digests, request.own)


def _choose(it: Directory, epoch: int, request: m.Choose, now: int) -> m.Reply:
    digests = m.few_digests_in(request.digests, m.CHOICES)
    (sizes,) = words_in(request.sizes)
    if len(sizes) != len(digests):
        raise UsageError("columns of a request do not fit each other", cause="protocol")
    return it.choose(request.near, digests, sizes, request.copies, now)


def _roll(it: Directory, epoch: int, request: m.Roll, now: int) -> m.Reply:
    return m.Roster(it.roll(now), it.figures())


def _name(it: Directory, epoch: int, request: m.Name, now: int) -> m.Reply:
    return it.name(request, now)


def _list(it: Directory, epoch: int, request: m.List, now: int) -> m.Reply:
    return it.listed(request.space, request.after, now)


def _follow(it: Directory, epoch: int, request: m.Follow, now: int) -> m.Reply:
    return it.follow(request.term, request.after, now)


def _scan(it: Directory, epoch: int, request: m.Scan, now: int) -> m.Reply:
    return it.scan(request.shard, request.bits, request.part)


def _look(it: Directory, epoch: int, request: m.Look, now: int) -> m.Reply:
    return m.Looked(it.figures())


_VERBS: dict[type, Callable[[Directory, int, Any, int], m.Reply]] = {
    m.Enroll: _enroll,
    m.Beat: _beat,
    m.Report: _report,
    m.Leave: _leave,
    m.Lookup: _lookup,
    m.Choose: _choose,
    m.Name: _name,
    m.List: _list,
    m.Follow: _follow,
    m.Scan: _scan,
    m.Look: _look,
    m.Roll: _roll,
}
