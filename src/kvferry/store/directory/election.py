"""One directory of several leads: the one whose key stands in etcd.

    state      what is done in a round             goes to
    IDLE       a lease is granted                  SEEKING
    SEEKING    the key is claimed, lease kept      LEADING when it is ours
    LEADING    the lease is kept                   IDLE when it has ended

A leader asks for its lease to last, and leads for as long as the lease does, counted on its own
clock from before it asked. It needs nobody to tell it that it leads no longer: a process that was
stopped, or is cut off, finds its time over. The next leader's key can be made only when the old one
has ended with its lease, which is not before that.

The term is the revision of etcd in which the leader's key was made: no two are alike, and each is
greater than all before.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

import msgspec

from ... import log
from ...errors import Error, UsageError
from ..clock import in_time, now
from .etcd import Etcd

__all__ = ["Election"]

logger = log.get("kvferry.directory")

SECOND = 1_000_000_000
TRIES = 6  # rounds in the time that a lease lasts
MARGIN = 0.1  # seconds by which a leader gives up early


class State(Enum):
    IDLE = "idle"
    SEEKING = "seeking"
    LEADING = "leading"


class _Claim(msgspec.Struct, frozen=True):
    """What stands at the key. by: one life of one candidate"""

    addresses: tuple[str, ...]
    by: str


class Seen(NamedTuple):
    """What a round told.

    leader  addresses of whoever leads, as far as known
    term    of that leader
    until   ns; we lead until then, 0: we do not
    """

    leader: tuple[str, ...]
    term: int
    until: int


NOBODY = Seen((), 0, 0)


class Candidate:
    """Stands for election, a round at a time. Not thread-safe; `clock` is in ns."""

    def __init__(
        self, etcd: Etcd, key: str, addresses: Sequence[str], ttl: int, clock: Callable[[], int]
    ) -> None:
        self.state = State.IDLE
        self._etcd = etcd
        self._key = key
        self._claim = _Claim(tuple(addresses), secrets.token_hex(16))
        self._ttl = ttl
        self._lease = 0
        self._span = 0  # ns for which the lease lasts
        self._clock = clock

    def round(self) -> Seen:
        """Do what is to be done now. Raises PeerError where etcd does not answer: what was seen
        before may still hold, until its time is over."""
        if self.state is State.IDLE:
            self._lease, seconds = self._etcd.grant(self._ttl)
            self._span = seconds * SECOND - int(MARGIN * SECOND)
            self.state = State.SEEKING
        asked = self._clock()
        if not self._etcd.keep(self._lease):
            self.state = State.IDLE
            return NOBODY
        mine = msgspec.json.encode(self._claim)
        held = self._etcd.claim(self._key, mine, self._lease)
        self.state = State.LEADING if held.value == mine else State.SEEKING
        leader = msgspec.json.decode(held.value, type=_Claim)
        leads = self.state is State.LEADING and in_time(asked, self._clock(), self._span)
        return Seen(leader.addresses, held.revision, asked + self._span if leads else 0)

    def resign(self) -> None:
        """Leave the key to somebody else at once, as far as etcd answers."""
        if self.state is not State.IDLE:
            self.state = State.IDLE
            self._etcd.revoke(self._lease)


class Election:
    """Stands for election from now on, in a thread of its own, until it is closed. Thread-safe.

    endpoints  of an etcd cluster
    cluster    names the directories that elect one of them
    addresses  where this one is reached
    ttl        seconds of the lease: how long nobody may lead after a leader's death

    Raises UsageError for a name or an endpoint that is none, before anything begins.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        cluster: str,
        addresses: Sequence[str],
        *,
        ttl: int = 2,
        clock: Callable[[], int] = now,
    ) -> None:
        if not cluster or not cluster.isprintable() or "/" in cluster:
            raise UsageError(f"{cluster!r} does not name a cluster", cause="cluster")
        if ttl < 1:
            raise UsageError(f"a lease of {ttl} seconds is none", cause="ttl")
        etcd = Etcd(endpoints, timeout=ttl / TRIES)
        self._candidate = Candidate(etcd, f"/kvferry/{cluster}/leader", addresses, ttl, clock)
        self._clock = clock
        self._pause = ttl / TRIES
        self._seen = NOBODY
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvferry-election", daemon=True)
        self._thread.start()

    @property
    def leads(self) -> bool:
        """Is it us, this moment?"""
        return self._clock() < self._seen.until

    @property
    def leader(self) -> tuple[str, ...]:
        """Where whoever leads is reached; nothing: nobody is known to."""
        seen = self._seen
        if seen.until and self._clock() >= seen.until:  # it was us
            return ()
        return seen.leader

    @property
    def term(self) -> int:
        """Of the leader last seen."""
        return self._seen.term

    def close(self) -> None:
        """Stand no more. Idempotent."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self._round()
            self._over.wait(self._pause)
        self._seen = NOBODY
        with suppress(Error):
            self._candidate.resign()

    def _round(self) -> None:
        before = self._seen
        try:
            self._seen = self._candidate.round()
        except Error as error:
            logger.warning("no round of the election: %s", error)
            return
        except ValueError:
            logger.exception("what stands in etcd is no leader of ours")
            return
        if self._seen.term != before.term and self._seen.until:
            logger.info("leads from now on, in term %d", self._seen.term)
