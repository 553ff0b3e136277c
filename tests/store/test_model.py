"""Whatever users, readers and evictors do: the catalog agrees with a dict, and no byte is wrong.

The pool is real memory. Users write into what they reserved, also when they should not any more;
readers look at what they hold. What a key's bytes were when it was stored they are until it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.typing import NDArray

from kvferry.store import (
    Answer,
    Catalog,
    Cause,
    Extents,
    Limits,
    Lru,
    Pin,
    PrefixLru,
    S3Fifo,
)
from kvferry.store.leases import UNSHARED
from tests.store.indices import LEDGERS

POOL = 40 * 64
ENTRIES = 16
KEYS = 24
USERS = 3
LIMITS = Limits(longest_lease=50, entries_high=0.9, entries_low=0.8, reserved_share=0.75)

key = st.integers(0, KEYS - 1)
size = st.one_of(st.integers(0, 64), st.integers(0, 64), st.integers(0, 700))
keys = st.lists(key, min_size=1, max_size=5)
user = st.integers(0, USERS - 1)
sizes = st.lists(size, min_size=1, max_size=4)
puts = st.lists(st.tuples(key, size), min_size=1, max_size=8)


def digests(numbers: list[int]) -> NDArray[np.uint64]:
    """Both halves tell keys apart, and name the same bucket of two, so that it is full early."""
    spread = [(n + 1) * 0x9E3779B97F4A7C15 % (1 << 64) for n in numbers]
    return np.array([[word, word ^ (word >> 7)] for word in spread], np.uint64).reshape(-1, 2)


@dataclass
class Write:
    """An extent that a user has, or had."""

    user: int
    attempt: int
    offset: int
    room: int


@dataclass
class Stored:
    """What a key's bytes are."""

    generation: int
    offset: int
    length: int
    content: int
    parent: int
    expires: int = 0
    leased: int = 0
    pin: Pin = Pin.NONE


class CatalogModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pool = np.zeros(POOL, np.uint8)
        self.now = 1
        self.writes: list[Write] = []  # to be committed
        self.zombies: list[Write] = []  # quarantined; their users may write still
        self.over: list[Write] = []
        self.objects: dict[int, Stored] = {}
        self.groups: list[set[int]] = []
        self.causes = dict.fromkeys(range(KEYS), Cause.NEVER)
        self.hazards: dict[int, tuple[int, int, int]] = {}  # generation: offset, length, content
        self.tickets: list[tuple[int, int, set[int]]] = []  # user, ticket, keys
        self.draining = False
        self.unheard = False  # the ledger did something that the catalog has not heard of

    @initialize(policy=st.sampled_from([Lru, S3Fifo, PrefixLru]), ledger=st.sampled_from(LEDGERS))
    def begin(self, policy: Any, ledger: Any) -> None:
        self.ledger = ledger(ENTRIES, LIMITS.entries(ENTRIES))
        held, slots = self._held, self.ledger.index.capacity
        self.prefix = policy is PrefixLru
        shared = {"shared": self._shared(slots)}
        self.catalog = Catalog(self.ledger, Extents(POOL), policy(slots), held, LIMITS, **shared)

    def _shared(self, slots: int) -> Any:
        return UNSHARED

    def _held(self, generations: NDArray[np.uint64]) -> NDArray[np.bool_]:
        assert (np.diff(generations.astype(np.int64)) > 0).all()
        return np.isin(generations, np.array(list(self.hazards), np.uint64))

    # Writing

    @rule(user=user, wanted=sizes)
    def reserve(self, user: int, wanted: list[int]) -> None:
        self._reserve(user, wanted)

    def _reserve(self, user: int, wanted: list[int]) -> None:
        got = self.catalog.reserve(user, np.array(wanted), self.now)
        mine = [write.room for write in self.writes + self.zombies if write.user == user]
        for row in range(len(wanted)):
            answer, attempt, offset, room = (int(column[row]) for column in got)
            if answer == Answer.RESERVED:
                assert room >= max(wanted[row], 1)
                self.writes.append(Write(user, attempt, offset, room))
            else:
                assert (answer, attempt, offset, room)[1:] == (0, 0, 0)
                assert answer == Answer.DRAINING or not self.draining
        mine += got.rooms[got.rooms > 0].tolist()
        assert len(mine) <= 1 or sum(mine) <= LIMITS.reserved_share * POOL
        self.forget_the_evicted()

    @precondition(lambda self: self.writes)
    @rule(
        data=st.data(),
        wanted=keys,
        parent=key,
        lifetime=st.sampled_from([0, 0, 7]),
        unheard=st.booleans(),
    )
    def commit(
        self, data: Any, wanted: list[int], parent: int, lifetime: int, unheard: bool
    ) -> None:
        some = data.draw(st.sampled_from(self.writes)).user
        mine = [write for write in self.writes if write.user == some][: len(wanted)]
        lengths = [data.draw(st.integers(0, write.room)) for write in mine]
        self._commit_all(mine, wanted[: len(mine)], lengths, parent, lifetime, unheard)

    @rule(
        user=user,
        wanted=puts,
        parent=key,
        lifetime=st.sampled_from([0, 0, 7]),
        unheard=st.booleans(),
    )
    def put(
        self,
        user: int,
        wanted: list[tuple[int, int]],
        parent: int,
        lifetime: int,
        unheard: bool,
    ) -> None:
        before = len(self.writes)
        self._reserve(user, [size for _, size in wanted])
        mine = self.writes[before:]
        names = [number for number, _ in wanted][: len(mine)]
        self._commit_all(mine, names, [write.room for write in mine], parent, lifetime, unheard)

    # Often, so that the pool is full most of the time.
    @rule(wanted=puts, parent=key)
    def put_more(self, wanted: list[tuple[int, int]], parent: int) -> None:
        self.put(0, wanted, parent, 0, False)

    @rule(wanted=puts, parent=key)
    def put_yet_more(self, wanted: list[tuple[int, int]], parent: int) -> None:
        self.put(1, wanted, parent, 0, True)

    def _commit_all(
        self,
        mine: list[Write],
        wanted: list[int],
        lengths: list[int],
        parent: int,
        lifetime: int,
        unheard: bool,
    ) -> None:
        """To the catalog or, `unheard`, to its ledger alone: the catalog learns of it later."""
        if not mine:
            return
        contents = [write.attempt * 37 % 251 + 1 for write in mine]
        for write, length, content in zip(mine, lengths, contents, strict=True):
            self.pool[write.offset : write.offset + length] = content
        until = self.now + lifetime if lifetime else 0
        user, attempts = mine[0].user, np.array([write.attempt for write in mine], np.uint64)
        words, names, parents = (
            np.array(lengths, np.uint64),
            digests(wanted),
            [parent] * len(wanted),
        )
        above, expires = digests(parents), np.full(len(wanted), until)
        if unheard:
            answers = self.ledger.commit(
                user, attempts, names, words, None, above, expires.astype(np.uint64)
            )
            self.unheard = True
        else:
            answers = self.catalog.commit(
                user, attempts, names, words, self.now, parents=above, expires=expires
            )
        before = set(self.objects)
        self.forget_the_evicted()
        stored = []
        for write, name, length, content, answer in zip(
            mine, wanted, lengths, contents, answers.tolist(), strict=True
        ):
            if answer == Answer.INDEX_FULL:
                continue
            if answer == Answer.STORED:
                stored.append(name)
                (entry,) = self.catalog.find(digests([name]))
                generation = int(entry["generation"])
                if generation and entry["offset"] == write.offset:
                    place = generation, write.offset, length
                    self.objects[name] = Stored(*place, content, name, until)
                elif not generation:  # somebody later in the batch came in its place
                    self.causes[name] = Cause.EVICTED
            else:
                assert answer == Answer.PRESENT
                assert name in before or name in stored
            self.writes.remove(write)
            self.over.append(write)
        for name, answer in zip(wanted, answers.tolist(), strict=True):
            if answer == Answer.INDEX_FULL and not unheard:
                self.causes[name] = Cause.REFUSED
        for child in (self.objects[name] for name in stored if name in self.objects):
            there = self.objects.get(parent)
            if there is not None and there.generation < child.generation:  # it was there before
                child.parent = parent

    @precondition(lambda self: self.writes)
    @rule(data=st.data())
    def commit_too_much(self, data: Any) -> None:
        write = data.draw(st.sampled_from(self.writes))
        length = np.array([write.room + 1], np.uint64)
        got = self._commit(write, 0, length)
        assert got == Answer.TOO_LARGE

    @precondition(lambda self: self.over or self.zombies)
    @rule(data=st.data(), key=key)
    def commit_late(self, data: Any, key: int) -> None:
        write = data.draw(st.sampled_from(self.over + self.zombies))
        assert self._commit(write, key, np.zeros(1, np.uint64)) == Answer.LATE

    @precondition(lambda self: self.writes)
    @rule(data=st.data(), key=key)
    def commit_of_another_user(self, data: Any, key: int) -> None:
        write = data.draw(st.sampled_from(self.writes))
        other = Write(write.user + 1, write.attempt, 0, 0)
        assert self._commit(other, key, np.zeros(1, np.uint64)) == Answer.UNKNOWN

    def _commit(self, write: Write, key: int, length: NDArray[np.uint64]) -> int:
        attempts = np.array([write.attempt], np.uint64)
        answer = self.catalog.commit(write.user, attempts, digests([key]), length, self.now)
        self.causes[key] = Cause.REFUSED if key not in self.objects else self.causes[key]
        self.forget_the_evicted()
        return int(answer[0])

    @precondition(lambda self: self.writes or self.zombies)
    @rule(data=st.data())
    def abort(self, data: Any) -> None:
        write = data.draw(st.sampled_from(self.writes + self.zombies))
        attempts = np.array([write.attempt], np.uint64)
        assert self.catalog.abort(write.user, attempts).tolist() == [Answer.ABORTED]
        assert self.catalog.abort(write.user, attempts).tolist() == [Answer.LATE]
        (self.writes if write in self.writes else self.zombies).remove(write)
        self.over.append(write)

    @rule(user=user)
    def quarantine(self, user: int) -> None:
        mine = [write for write in self.writes + self.zombies if write.user == user]
        assert self.catalog.quarantine(user) == sum(write.room for write in mine)
        self.writes = [write for write in self.writes if write.user != user]
        self.zombies = [write for write in self.zombies if write.user != user] + mine

    @rule(user=user)
    def gone(self, user: int) -> None:
        mine = [write for write in self.writes + self.zombies if write.user == user]
        assert self.catalog.gone(user) == sum(write.room for write in mine)
        self.over += mine
        self.writes = [write for write in self.writes if write.user != user]
        self.zombies = [write for write in self.zombies if write.user != user]
        self._end([lease for lease in self.tickets if lease[0] == user])

    @rule()
    def zombies_write(self) -> None:
        for write in self.writes + self.zombies:
            self.pool[write.offset : write.offset + write.room] = 0xEE

    # Reading and staying

    @rule(wanted=keys)
    def hold(self, wanted: list[int]) -> None:
        for entry, number in zip(self.catalog.find(digests(wanted)), wanted, strict=True):
            if entry["generation"]:
                stored = self.objects[number]
                self.hazards[int(entry["generation"])] = (
                    stored.offset,
                    stored.length,
                    stored.content,
                )
                low = np.array([int(entry["generation"]) & 0xFFFFFFFF], np.uint32)
                self.catalog.touch(np.array([entry["slot"]], np.int64), low)

    @precondition(lambda self: self.hazards)
    @rule(data=st.data())
    def let_go(self, data: Any) -> None:
        del self.hazards[data.draw(st.sampled_from(sorted(self.hazards)))]

    @rule(user=user, wanted=keys, lifetime=st.integers(1, 99))
    def lease(self, user: int, wanted: list[int], lifetime: int) -> None:
        leased = self.catalog.lease(user, digests(wanted), self.now, self.now + lifetime)
        assert leased.until == self.now + min(lifetime, LIMITS.longest_lease)
        there = {n: self.objects[n].expires for n in wanted if n in self.objects}
        found = {n for n, expires in there.items() if not expires or expires > self.now}
        assert [a == Answer.FOUND for a in leased.answers] == [n in found for n in wanted]
        assert bool(leased.ticket) == bool(found)
        for number in found:
            self.objects[number].leased = max(self.objects[number].leased, leased.until)
        if found:
            self.tickets.append((user, leased.ticket, found))

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def renew(self, data: Any) -> None:
        user, ticket, held = data.draw(st.sampled_from(self.tickets))
        assert not self.catalog.renew(user + 1, ticket, self.now, self.now + 30)
        if self.catalog.renew(user, ticket, self.now, self.now + 30):
            for number in held & set(self.objects):
                stored = self.objects[number]
                assert stored.leased > self.now
                stored.leased = max(stored.leased, self.now + 30)

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(self.tickets))
        self.catalog.release(lease[0], lease[1])
        assert not self.catalog.release(lease[0], lease[1])
        self._end([lease])

    def _end(self, leases: list[tuple[int, int, set[int]]]) -> None:
        """What no lease names any more may leave."""
        self.tickets = [lease for lease in self.tickets if lease not in leases]
        named = {number for _, _, held in self.tickets for number in held}
        for number, stored in self.objects.items():
            stored.leased = stored.leased if number in named else 0

    @rule(wanted=keys, pin=st.sampled_from(Pin))
    def pin(self, wanted: list[int], pin: Pin) -> None:
        self.catalog.pin(digests(wanted), pin)
        for number in set(wanted) & set(self.objects):
            self.objects[number].pin = pin

    @rule(wanted=keys)
    def group(self, wanted: list[int]) -> None:
        self.catalog.group(digests(wanted))
        members = set(wanted) & set(self.objects)
        if members:
            joined = [group for group in self.groups if group & members]
            self.groups = [group for group in self.groups if not group & members]
            self.groups.append(members.union(*joined))

    # Leaving

    @rule(wanted=keys)
    def remove(self, wanted: list[int]) -> None:
        answers = self.catalog.remove(digests(wanted), self.now).tolist()
        for number, answer in zip(wanted, answers, strict=True):
            stored = self.objects.get(number)
            if stored is None:
                assert answer == Answer.ABSENT
            elif answer == Answer.REMOVED:
                assert not self._kept(stored)
                self._leave(number, Cause.REMOVED)
            else:
                assert answer == Answer.LEASED
                assert self._kept(stored)

    @rule(needed=st.integers(0, POOL))
    def evict(self, needed: int) -> None:
        before = self.catalog.usage()
        gone = self.catalog.evict(needed, self.now)
        after = self.catalog.usage()
        assert after.free - before.free == gone.bytes
        assert before.count - after.count == gone.objects
        assert gone.bytes >= needed or not self._could_leave()
        self.forget_the_evicted()

    @rule()
    def trim(self) -> None:
        self.catalog.trim(self.now)
        self.forget_the_evicted()

    @rule(later=st.integers(0, 20))
    def expire(self, later: int) -> None:
        self.now += later
        self.catalog.expire(self.now)
        for number in list(self.objects):
            stored = self.objects[number]
            if stored.expires and stored.expires <= self.now and not self._kept(stored):
                self._leave(number, Cause.EXPIRED)

    @precondition(lambda self: len(self.over) > 12)
    @rule()
    def drain(self) -> None:
        self.draining = True
        self.catalog.drain(self.now)
        for number in [n for n, stored in self.objects.items() if not self._kept(stored)]:
            self._leave(number, Cause.DRAINED)

    def _leave(self, number: int, cause: Cause) -> None:
        del self.objects[number]
        self.causes[number] = cause
        self.tickets = [(u, t, held - {number}) for u, t, held in self.tickets]
        for group in self.groups:
            group.discard(number)
        for stored_number, stored in self.objects.items():
            stored.parent = stored_number if stored.parent == number else stored.parent

    def _could_leave(self) -> set[int]:
        """Leaves of trees that nothing keeps and that are in no group."""
        grouped = {number for group in self.groups if len(group) > 1 for number in group}
        inner = {s.parent for n, s in self.objects.items() if s.parent != n} if self.prefix else ()
        return {
            number
            for number, stored in self.objects.items()
            if self._may_leave(stored) and number not in grouped and number not in inner
        } & set(np.flatnonzero(self.catalog.find(digests(list(range(KEYS))))["generation"]))

    def _kept(self, stored: Stored) -> bool:
        """By a lease; nothing that has left is."""
        return stored.leased > self.now

    def _may_leave(self, stored: Stored) -> bool:
        return not self._kept(stored) and stored.pin is not Pin.HARD

    def forget_the_evicted(self) -> None:
        there = self.catalog.find(digests(list(range(KEYS))))["generation"].tolist()
        lost = [n for n, stored in self.objects.items() if there[n] != stored.generation]
        assert all(self._may_leave(self.objects[number]) for number in lost)
        assert all(not group & set(lost) or group <= set(lost) for group in self.groups)
        if self.prefix:
            assert all(s.parent not in lost or n in lost for n, s in self.objects.items())
        for number in lost:
            self._leave(number, Cause.EVICTED)

    # What holds at any time

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "catalog"):
            return
        if self.unheard:  # the next verb is the first to hear
            self.unheard = False
            return
        self._agrees()
        self._counts_every_byte()

    def _agrees(self) -> None:
        assert self.catalog.check_integrity() == []
        for number, entry in enumerate(self.catalog.find(digests(list(range(KEYS))))):
            stored = self.objects.get(number)
            assert bool(entry["generation"]) == (stored is not None)
            if stored is not None:
                assert (entry["offset"], entry["length"]) == (stored.offset, stored.length)
                assert self._bytes(stored.offset, stored.length) <= {stored.content}
        for offset, length, content in self.hazards.values():
            assert self._bytes(offset, length) <= {content}
        why = self.catalog.why(digests(list(range(KEYS)))).tolist()
        present = dict.fromkeys(self.objects, Cause.PRESENT)
        assert why == list({**self.causes, **present}.values())

    def _counts_every_byte(self) -> None:
        use = self.catalog.usage()
        parts = use.free + use.objects + use.reserved + use.quarantined + use.deferred
        assert parts == use.capacity == POOL
        assert use.reserved == sum(write.room for write in self.writes)
        assert use.quarantined == sum(write.room for write in self.zombies)
        assert use.count == len(self.objects)

    def _bytes(self, offset: int, length: int) -> set[int]:
        return set(self.pool[offset : offset + length].tolist())


class TestCatalog(CatalogModel.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=12, stateful_step_count=40, deadline=None)


@pytest.mark.slow
class TestCatalogForLong(CatalogModel.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
