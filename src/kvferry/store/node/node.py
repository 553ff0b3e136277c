"""A node: the memory of a host's store, and who may use it.

    pool     objects, each in its extent           users write what they have reserved
    index    where they lie                        users read
    leases   until when each of them stays         users write
    bell     a word that users ring                users write
    user.N   hazard lines and desk of one user     that user writes, nobody else has it

Users whose token permits to read alone write to their hazard lines and nothing else, have no desk,
and ask for leases.

The catalog decides; the clerk answers commits beside it, natively. Whoever asks the catalog or the
ledger holds the clerk's lock. Nothing is waited for, sent or mapped under it.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from ... import _core, log
from ...address import parse
from ...engine import Engine
from ...errors import Error, Full, PeerError, UsageError
from ...memory import Region
from ...runtime import Access
from ..answers import Answer, Answers, Digests
from ..catalog import Catalog
from ..clock import now
from ..departures import either
from ..directory.directed import Directed
from ..extents import Extents
from ..policies import POLICIES
from ..records import Commits, Limits
from ..ssd import Ssd, Tier, clocks, set_up
from ..table import Entries
from ..witness import Witness
from .members import Member, Members
from .tally import Tally

if TYPE_CHECKING:
    from ..directory.copier import Copier
    from ..directory.herald import Herald

__all__ = ["Node"]

logger = log.get("kvferry.store")

LIMITS = Limits()
ALONE = Directed()

INDEX_FULL = int(Answer.INDEX_FULL)  # as far as the ledger alone can say

LINES = 1024  # a user: so many reads and views at once
PAGE = 4096
MEAN_OBJECT = 8 << 10  # bytes, from which the size of an index follows that nobody named
LEAST_OBJECTS = 1024
MOST_OBJECTS = 1 << 29  # what a policy can keep in order
MOST_USERS = 4096  # whose lines are not of the pool
STOCK_SHARE = 64  # of the pool, that a single user may have reserved ahead


class Node:
    """Keeps objects in memory of an engine, and decides who stays. Thread-safe.

    engine   whose regions its memory is; to be closed after the node, by whoever opened it
    size     bytes of the pool
    policy   "lru", "s3fifo" or "prefix"
    objects  how many at most; by default as many as there are of 8 KiB
    peers    addresses of other nodes, of which users are told
    directory  who knows of this node, and is asked by its users
    ssd      where what does not fit into memory lies; None: nowhere
    tenant   of the engine's, whose objects it keeps; users of others have no part in it

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
        directory: Directed = ALONE,
        tenant: str = "",
        ssd: Ssd | None = None,
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
        self.directory = directory.checked()
        # Of what comes to memory or disk, and what leaves both; others may be added, with the lock.
        self.witnesses: list[Witness] = []
        self.tenant = tenant
        self.tenants: dict[str, Node] = {}  # whose figures its users may see, too
        self.page = ""  # where its figures are shown by HTTP
        self.limits = limits
        self.tally = Tally()
        self.copier: Copier | None = None  # while its service lasts
        self.herald: Herald | None = None  # the same, where it knows of a directory
        self.members = Members()
        shared = bool(engine.addresses or peers or directory.addresses or ssd)
        self.secret = engine.derive(b"kvferry store", tenant) if shared else secrets.token_bytes(16)
        self.pool = engine.allocate("store.pool", size, tenant=tenant)
        entries = int(objects / limits.entries_high) + 1
        self._index_region = engine.allocate(
            "store.index", _core.index_bytes(entries), readonly=True, tenant=tenant
        )
        self._bell = engine.allocate("store.bell", PAGE, tenant=tenant)
        memory = self._index_region
        self.index = _core.Index(memory.address, memory.length, engine.epoch)
        self.leases = engine.allocate(
            "store.leases", _core.leases_bytes(self.index.capacity), tenant=tenant
        )
        self._ledger = _core.Ledger(self.index, int(self.index.capacity * limits.entries_high))
        self.clerk = _core.Clerk(self._ledger, self._bell.address)
        opened = None
        if ssd is not None:
            whose = self.witnesses, tenant, self.secret
            opened = set_up(engine, ssd, self.index, size, *whose, *clocks())
            self._ledger.beside(opened.lying)
        behind = None if opened is None else opened.behind
        told: list[Witness] = self.witnesses if behind is None else [behind]
        self.catalog = Catalog(
            self._ledger,
            Extents(size),
            POLICIES[policy](self.index.capacity),
            self.members.held if behind is None else either(self.members.held, behind.held),
            limits,
            told,
            None if behind is None else behind.dear,
            _core.SharedLeases(self.index, self.leases.address, self.leases.length),
        )
        self.tier = opened and Tier(self.clerk, self.catalog, opened, self.index, self.pool)
        if self.tier is not None:
            told.append(self.tier)

    @property
    def index_region(self) -> Region:
        return self._index_region

    @property
    def stock(self) -> int:
        """Bytes that a user who joins now may keep reserved ahead: the fewer, the more users there
        are, so that the stocks of a hundred that are idle are a twelfth of the pool together."""
        return self.pool.length // STOCK_SHARE // max(len(self.members), 1)

    # ---- users ----

    def join(
        self,
        epoch: int,
        name: str,
        pid: int | None,
        mapped: bool,
        rights: Access = Access.WRITE,
        pidfd: int | None = None,
    ) -> Member:
        """The user that this engine is, new or known; with lines of its own if it maps memory. The
        descriptor of its process stays the caller's. Raises Full when there are as many users as
        there may be."""
        with self.clerk:
            member = self.members.of(epoch, rights)
            if member is None:
                if len(self.members) >= MOST_USERS:
                    raise Full(f"there are {MOST_USERS} users", cause="users")
                member = self.members.admit(epoch, name, pid, rights, pidfd)
            member.follow(pid, pidfd)  # it may have come from another network before
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
        desk = _core.desk_bytes() if member.rights is Access.WRITE else 0
        mine = member.epoch == self.engine.epoch
        region = self.engine.allocate(
            f"store.user.{member.number}",
            self.lines_bytes + desk,
            only=member.epoch,
            tenant=self.tenant,
            rights=member.rights,
        )
        with self.clerk:
            here = self.members.numbered(member.number) is member
            if here:
                member.lines = _core.Lines(region.address, self.lines_bytes)
                member.region = region
            if here and desk and not mine:
                self.clerk.seat(member.number, region.address + self.lines_bytes, desk)
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

    def scan(self, start: int, count: int) -> Entries:
        """What is in memory, and behind that what is on the disk, of `count` slots from `start` on;
        the caller holds the lock."""
        here = self.index.capacity
        entries = self.index.scan(min(start, here), count)
        beyond = min(start + count - here, count)
        if self.tier is None or beyond <= 0:
            return entries
        return np.concatenate((entries, self.tier.scan(max(start - here, 0), beyond)))

    @property
    def slots(self) -> int:
        """Of memory and disk."""
        return self.index.capacity + (0 if self.tier is None else self.tier.slots)

    def fetch(self, digests: Digests) -> Answers | None:
        """Have in memory what lies on the disk, an Answer each; None: there is no disk. Blocks."""
        return None if self.tier is None else self.tier.fetch(digests)

    def take_out(self, digests: Digests, force: bool = False) -> Answers:
        """Remove objects from wherever they lie, by force leased ones, too. Blocks until the disk
        knows, unless it refuses."""
        if self.tier is None:
            with self.clerk:
                return self.catalog.remove(digests, now(), force=force)
        with self.clerk:
            before = self.tier.asked
            answers = self.tier.remove(digests, self.catalog.remove(digests, now(), force=force))
            asked = self.tier.asked
        if asked > before:
            self.tier.settle(asked)
        return answers

    def why(self, digests: Digests) -> Answers:
        """Of each key a Cause; the caller holds the lock."""
        told = self.catalog.why(digests)
        return told if self.tier is None else self.tier.why(digests, told)

    def expire(self) -> None:
        """What was to end by now does; the caller holds the lock."""
        self.catalog.expire(now())
        if self.tier is not None:
            self.tier.expire(now())

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
            traffic = self.tally.traffic(members)
            turnover = self.catalog.turnover()
        users = {
            "users": len(members),
            "silent": sum(each.silent for each in members),
            "held_lines": held,
        }
        figures = {
            "usage": {**asdict(usage), "most": self.limits.entries(self.index.capacity)},
            "reads": reads,
            "misses": misses,
            "traffic": traffic,
            "users": users,
            **turnover,
        }
        return figures if self.tier is None else {**figures, "ssd": self.tier.figures()}

    # ---- the end ----

    def shut(self) -> None:
        """Take nothing in any more. What is here stays."""
        with self.clerk:
            self.catalog.shut()

    def drain(self) -> int:
        """Take nothing in any more, and let go of all that is not leased: bytes that stay."""
        with self.clerk:
            self.catalog.drain(now())
            usage = self.catalog.usage()
        return usage.objects + usage.deferred

    def close(self, patience: float = 0.0) -> None:
        """Readers are told that it is over, and so many seconds are waited for a disk that is being
        written to. The memory goes with the engine."""
        if self.tier is not None:
            self.tier.close(patience)
        with self.clerk:
            self.index.retire()
            for member in self.members:
                if member.region is not None:
                    self.clerk.unseat(member.number)
                self.members.forget(member)
