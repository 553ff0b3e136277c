"""A node at work: its service for users elsewhere, and the threads that look after it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np

from ... import _core, log
from ...engine import Caller
from ...errors import PeerError, UsageError
from ...path import LinkKind
from .. import messages as m
from ..clock import now
from ..directory.copier import Copier
from ..directory.draining import Moved
from ..directory.herald import Herald
from ..directory.herald import begin as herald_of
from ..records import Commits
from .figures import looked
from .members import Member
from .node import Node
from .verbs import answer, joined

__all__ = ["Service"]

logger = log.get("kvferry.store")

UNSEEN = (
    "the node would not notice the end of this process, so it may not map the node's memory: it is "
    "in a pid namespace that the node does not see, and the node's kernel has no SO_PEERPIDFD "
    "(Linux 6.5)"
)

TICK = 0.1  # seconds from one round of upkeep to the next
FLUSH = 10.0  # seconds that memory has to be written to a disk, where no grace says how long
SLICE = 1_000_000_000  # ns that the clerk waits at a stretch


class Service:
    """Answers users of a node until it is closed.

    Two threads: one answers what users commit through their desks, one sees who is gone, what has
    expired and whether the pool is too full. Where they cannot all be begun the node is closed, and
    nothing is left running.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._over = threading.Event()
        self._hurried = False
        self.moved: Moved | None = None  # by the last grace, to other nodes
        self._threads: list[threading.Thread] = []  # that were started
        self._herald: Herald | None = None
        self._copier = Copier(node, node.directory.copy_rate)
        try:
            self._begin()
        except BaseException:
            self._hurried = True
            self.close()
            raise

    def _begin(self) -> None:
        node = self.node
        node.copier = self._copier
        if node.engine.addresses:
            node.engine.serve_callers(m.SERVICE, self._serve, tenant=node.tenant, readers=True)
            self._start(self._answer_desks, "kvferry-clerk")
        self._start(self._tend, "kvferry-upkeep")
        if node.tier is not None:
            node.tier.start()
        self._herald = node.herald = herald_of(node, self._copier)

    def _start(self, work: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    @property
    def enrolled(self) -> bool:
        """Does a directory know the node, and all that it has? True where it is told of none."""
        return self._herald is None or self._herald.enrolled

    @property
    def closed(self) -> bool:
        return self._over.is_set()

    def close(self, grace: float = 0.0) -> None:
        """Stop. Whoever asks from now on is refused. Idempotent.

        grace  seconds in which nothing more is taken in, and what is leased or being read may end
        """
        if self._over.is_set():
            return
        if grace:
            self._drain(grace)
        if self._herald is not None:
            self._herald.close()
        self._copier.close()
        self.node.copier = self.node.herald = None  # which know the node
        self._over.set()
        self.node.clerk.wake()
        for thread in self._threads:
            thread.join()
        self.node.close(0.0 if grace or self._hurried else FLUSH)

    def _drain(self, grace: float) -> None:
        end = now() + int(grace * 1e9)
        self.node.shut()  # else a disk that is slower than those who put would never be done
        if self.node.tier is not None:
            self.node.tier.flush(grace, lambda: self._hurried)
        if self._herald is not None:
            self.moved = self._herald.drain(end, lambda: self._hurried)
        while self.node.drain() and now() < end and not self._hurried:
            self._over.wait(TICK)

    def hurry(self) -> None:
        """Have a grace end. Takes no lock: handlers of signals may call it."""
        self._hurried = True

    # ---- users elsewhere ----

    def _serve(self, caller: Caller, body: bytes) -> bytes:
        if self._over.is_set():
            raise PeerError("the node is closed", cause="node_gone")
        request = m.decode_request(body)
        if isinstance(request, m.Join):
            return m.encode(self._join(caller, request))
        if isinstance(request, m.Look):  # by who need not be a user
            return m.encode(looked(self.node))
        member = self.node.members.of(caller.epoch, caller.rights)
        if member is None:
            raise UsageError("who asks has not joined", cause="not_joined")
        return m.encode(answer(self.node, member, request))

    def _join(self, caller: Caller, request: m.Join) -> m.Joined:
        if request.version != m.VERSION:
            raise UsageError(
                f"the user speaks version {request.version}, the node {m.VERSION}", cause="version"
            )
        member = self._admit(caller, request.mapped)
        member.link = caller.link or LinkKind.TCP
        return joined(self.node, member)

    def _admit(self, caller: Caller, mapped: bool) -> Member:
        pidfd = caller.pidfd()
        try:
            if mapped and pidfd is None and not caller.pid:
                raise UsageError(UNSEEN, cause="no_pid")
            who = caller.epoch, caller.name, caller.pid
            return self.node.join(*who, mapped, caller.rights, pidfd)
        finally:
            if pidfd is not None:
                os.close(pidfd)

    # ---- desks ----

    def _answer_desks(self) -> None:
        while not self._over.is_set():
            for user, tray in self.node.clerk.serve(_core.now() + SLICE):
                self._settle(user, tray)

    def _settle(self, user: int, tray: int) -> None:
        """What the ledger alone could not."""
        clerk = self.node.clerk
        owed = Commits(*clerk.records(user, tray))
        if len(owed.attempts):
            clerk.answer(user, tray, self.node.settle(user, owed))

    # ---- upkeep ----

    def _tend(self) -> None:
        while not self._over.wait(TICK):
            try:
                self._see_who_is_gone()
                self._keep_order()
            except Exception:  # the next round comes
                logger.exception("a round of upkeep failed")

    def _see_who_is_gone(self) -> None:
        """A process on this host is gone when it has exited; one elsewhere when its channel is over
        and quiet, and until then it may be writing."""
        members = list(self.node.members)
        # Asked later: who joined in between is connected.
        callers = self.node.engine.callers_of(self.node.tenant)
        for member in members:
            who = member.epoch, member.rights
            connected = who in callers or member.epoch == self.node.engine.epoch
            if member.exited or not (connected or member.followed):
                self.node.remove(member)
            elif not connected and not member.silent:
                self.node.silence(member)

    def _keep_order(self) -> None:
        with self.node.clerk:
            self.node.hear_touches()
            self._hear_misses()
            self.node.expire()
        while self.node.trim():  # others are served in between
            pass

    def _hear_misses(self) -> None:
        for member in self.node.members:
            prints = np.zeros(0, np.uint64) if member.lines is None else member.lines.misses()
            if len(prints):
                self.node.tally.missed(self.node.catalog.recall(prints))


def own_user(node: Node) -> Member:
    """The process that the node is embedded in, as its user."""
    return node.join(node.engine.epoch, node.engine.name, None, mapped=True)
