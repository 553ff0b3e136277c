"""A node: the memory of a host's store, and who may use it.

    pool     objects, each in its extent           users write what they have reserved
    index    where they lie                        users read
    bell     a word that users ring                users write
    user.N   hazard lines and desk of one user     that user writes, nobody else has it

The catalog decides; the clerk answers commits beside it, natively. Whoever asks the catalog or the
ledger holds the clerk's lock. Nothing is waited for, sent or mapped under it.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import asdict

import numpy as np

from ... import _core, log
from ...address import parse
from ...engine import Engine
from ...errors import Error, PeerError, UsageError
from ...memory import Region
from ..answers import Answer, Answers
from ..catalog import Catalog
from ..clock import now
from ..extents import Extents
from ..policies import POLICIES
from ..records import Commits, Limits
from .members import Member, Members
from .tally import Tally

__all__ = ["Node"]

logger = log.get("kvferry.store")

LIMITS = Limits()

INDEX_FULL = int(Answer.INDEX_FULL)  # as far as the ledger alone can say

LINES = 1024  # a user: so many reads and views at once
PAGE = 4096
MEAN_OBJECT = 8 << 10  # bytes, from which the size of an index follows that nobody named
LEAST_OBJECTS = 1024
MOST_OBJECTS = 1 << 29  # what a policy can keep in order
STOCK_SHARE = 64  # of the pool, that a single user may have reserved ahead


class Node:
    """Keeps objects in memory of an engine, and decides who stays. Thread-safe.

    engine   whose regions its memory is; to be closed after the node, by whoever opened it
    size     bytes of the pool
    policy   "lru", "s3fifo" or "prefix"
    objects  how many at most; by default as many as there are of 8 KiB
    peers    addresses of other nodes, of which users are told

    Raises UsageError for an unknown policy, a size or an address that is none, NoMemory when the
    machine has not got it.
    """

    def __init__(
        self,
        engine: Engine,
        size: int,
        *,
        policy: str = "lru",
        objects: int | None = None,
        limits: Limits = LIMITS,
        peers: tuple[str, ...] = (),
    ) -> None:
        if policy not in POLICIES:
            known = ", ".join(POLICIES)
            raise UsageError(f"policy {policy!r} is not one of {known}", cause="policy")
        if size < PAGE:
            raise UsageError(f"a pool of {size} bytes is none", cause="bad_size")
        if objects is None:
            objects = min(max(size // MEAN_OBJECT, LEAST_OBJECTS), MOST_OBJECTS)
        if not 0 < objects <= MOST_OBJECTS:
            raise UsageError(f"an index of {objects} objects is none", cause="bad_size")
        for peer in peers:
            parse(peer)
        self.engine = engine
        self.peers = peers
        self.limits = limits
        self.tally = Tally()
        self.members = Members()
        shared = bool(engine.addresses or peers)
        self.secret = engine.derive(b"kvferry store") if shared else secrets.token_bytes(16)
        self.pool = engine.allocate("store.pool", size)
        entries = int(objects / limits.entries_high) + 1
        self._index_region = engine.allocate(
            "store.index", _core.index_bytes(entries), readonly=True
        )
        self._bell = engine.allocate("store.bell", PAGE)
        memory = self._index_region
        self.index = _core.Index(memory.address, memory.length, engine.epoch)
        self._ledger = _core.Ledger(self.index, int(self.index.capacity * limits.entries_high))
        self.clerk = _core.Clerk(self._ledger, self._bell.address)
        self.catalog = Catalog(
            self._ledger,
            Extents(size),
            POLICIES[policy](self.index.capacity),
            self.members.held,
            limits,
        )

    @property
    def index_region(self) -> Region:
        return self._index_region

    @property
    def stock(self) -> int:
        """Bytes that a user who joins now may keep reserved ahead: the fewer, the more users there
        are, so that the stocks of a hundred that are idle are a twelfth of the pool together."""
        return self.pool.length // STOCK_SHARE // max(len(self.members), 1)

    # ---- users ----

    def join(self, epoch: int, name: str, pid: int | None, mapped: bool) -> Member:
        """The user that this engine is, new or known; with lines of its own if it maps memory."""
        with self.clerk:
            member = self.members.of(epoch) or self.members.admit(epoch, name, pid)
            member.joins += 1
        if mapped and member.region is None:
            self._furnish(member)
        return member

    def leave(self, member: Member) -> None:
        """It holds nothing any more, and writes nothing any more."""
        member.joins -= 1
        if member.joins <= 0:
            self.remove(member)

    def silence(self, member: Member) -> None:
        """Its channel is over: what it reserved is no object any more, and nobody else's yet."""
        with self.clerk:
            member.silent = True
            held = self.catalog.quarantine(member.number)
        if held:
            logger.warning("%s fell silent; %d bytes wait for its exit", member.name, held)

    def remove(self, member: Member) -> None:
        """It surely touches nothing any more: all it had is free."""
        with self.clerk:
            if self.members.numbered(member.number) is not member:
                return
            self.drain_touches(member)
            self.members.forget(member)
            if member.region is not None:
                self.clerk.unseat(member.number)
            self.catalog.gone(member.number)
            self.tally.keep(member)
        if member.region is not None and member.epoch != self.engine.epoch:
            with suppress(Error):  # nobody is left who could hold on to it
                self.engine.unregister(member.region)

    def _furnish(self, member: Member) -> None:
        size = self.lines_bytes + _core.desk_bytes()
        mine = member.epoch == self.engine.epoch
        region = self.engine.allocate(f"store.user.{member.number}", size, only=member.epoch)
        with self.clerk:
            here = self.members.numbered(member.number) is member
            if here:
                member.lines = _core.Lines(region.address, self.lines_bytes)
                member.region = region
            if here and not mine:
                self.clerk.seat(
                    member.number, region.address + self.lines_bytes, _core.desk_bytes()
                )
        if not here:  # its process has ended meanwhile
            self.engine.unregister(region)
            raise PeerError("the user is gone", cause="user_gone", peer=member.name)

    @property
    def lines_bytes(self) -> int:
        return _core.lines_bytes(LINES)

    # ---- what is done with the clerk's lock ----

    def commit(self, user: int, commits: Commits) -> Answers:
        """Objects become known; what the ledger alone cannot settle, the catalog does."""
        answers = self.clerk.commit(user, *commits)
        if INDEX_FULL in answers.tobytes():
            left = np.flatnonzero(answers == INDEX_FULL)
            answers[left] = self.settle(user, commits.some(left))
        return answers

    def settle(self, user: int, commits: Commits) -> Answers:
        """The slow way to commit: others may have to leave."""
        attempts, digests, lengths, attrs, parents, expires = commits
        with self.clerk:
            self.hear_touches()
            return self.catalog.commit(
                user,
                attempts,
                digests,
                lengths,
                now(),
                attrs=attrs,
                parents=parents,
                expires=expires,
            )

    def trim(self) -> int:
        """Let some objects leave if the pool or the index is too full: how many did."""
        with self.clerk:
            return self.catalog.trim(now()).objects

    def hear_touches(self) -> None:
        """Let the policy know what was read; the caller holds the lock."""
        for member in self.members:
            self.drain_touches(member)

    def drain_touches(self, member: Member) -> None:
        if member.lines is not None:
            touches = member.lines.touches()
            if len(touches):
                self.catalog.touch(touches["slot"].astype(np.int64), touches["generation"])

    def figures(self) -> dict[str, dict[str, int]]:
        """What there is to be seen: bytes, reads, misses by cause, users."""
        with self.clerk:
            members = list(self.members)
            usage = self.catalog.usage()
            lines = [each.lines for each in members if each.lines is not None]
            held = sum(len(each.claimed()) for each in lines)
            reads = self.tally.reads([each.counters() for each in lines])
            misses = self.tally.misses()
        users = {
            "users": len(members),
            "silent": sum(each.silent for each in members),
            "held_lines": held,
        }
        return {"usage": asdict(usage), "reads": reads, "misses": misses, "users": users}

    # ---- the end ----

    def drain(self) -> int:
        """Take nothing in any more, and let go of all that is not leased: bytes that stay."""
        with self.clerk:
            self.catalog.drain(now())
            usage = self.catalog.usage()
        return usage.objects + usage.deferred

    def close(self) -> None:
        """Readers are told that it is over. The memory goes with the engine."""
        with self.clerk:
            self.index.retire()
            for member in self.members:
                if member.region is not None:
                    self.clerk.unseat(member.number)
                self.members.forget(member)
