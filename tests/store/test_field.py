"""Stores as users of others met them. Names begin with the lesson's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kvferry._core import ARRIVALS
from kvferry.store import (
    Answer,
    Catalog,
    Cause,
    Evicted,
    Extents,
    Limits,
    Lru,
    Pin,
    Policy,
    PrefixLru,
    S3Fifo,
)
from tests.store.indices import NativeLedger

KIB = 1024
FOREVER = 1 << 60
POLICIES = [Lru, S3Fifo, PrefixLru]


def digests(*numbers: int) -> NDArray[np.uint64]:
    rngs = map(np.random.default_rng, numbers)
    rows = [rng.integers(0, (1 << 64) - 1, 2, np.uint64) for rng in rngs]
    return np.array(rows, np.uint64).reshape(-1, 2)


class Host:
    """A catalog, and who reads."""

    def __init__(
        self, pool: int, entries: int = 1024, policy: type[Policy] = Lru, **limits: Any
    ) -> None:
        self.held: set[int] = set()
        bounds = Limits(**{"longest_lease": FOREVER, "reserved_share": 1.0, **limits})
        self.ledger = NativeLedger(entries, bounds.entries(entries))
        capacity = self.ledger.index.capacity
        self.catalog = Catalog(self.ledger, Extents(pool), policy(capacity), self._held, bounds)

    def _held(self, generations: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return np.isin(generations, np.array(list(self.held), np.uint64))

    def put(self, *numbers: int, size: int = KIB, now: int = 0) -> list[Answer]:
        got = self.catalog.reserve(1, np.full(len(numbers), size), now)
        given = got.answers == Answer.RESERVED
        answers = got.answers.copy()
        answers[given] = self.catalog.commit(
            1,
            got.attempts[given],
            digests(*numbers)[given],
            np.full(given.sum(), size, np.uint64),
            now,
        )
        assert self.catalog.check_integrity() == []
        return [Answer(answer) for answer in answers.tolist()]

    def there(self, *numbers: int) -> list[bool]:
        return [bool(there) for there in self.catalog.find(digests(*numbers))["generation"]]

    def why(self, *numbers: int) -> list[Cause]:
        return [Cause(cause) for cause in self.catalog.why(digests(*numbers)).tolist()]


def test_f1_what_a_lease_covers_is_not_reused_before_it_ends() -> None:
    host = Host(4 * KIB)
    host.put(1, 2, 3, 4)
    lease = host.catalog.lease(7, digests(1), now=0, until=100)
    offset = lease.entries["offset"][0]
    host.put(5, 6, 7, now=99)
    assert host.there(1, 2, 3, 4) == [True, False, False, False]
    assert host.catalog.reserve(1, np.array([4 * KIB]), now=99).answers.tolist() == [Answer.LEASED]
    assert host.catalog.reserve(1, np.array([4 * KIB]), now=100).offsets.tolist() == [0]
    assert not host.catalog.renew(7, lease.ticket, now=101, until=200)
    assert offset == 0


def test_f3_a_batch_that_outlives_its_lease_renews_it() -> None:
    host = Host(4 * KIB)
    host.put(1, 2, 3, 4)
    ticket = host.catalog.lease(7, digests(1, 2, 3, 4), now=0, until=10).ticket
    for now in range(5, 100, 5):
        assert host.catalog.renew(7, ticket, now, now + 10)
        assert host.put(9, now=now) == [Answer.LEASED]
    assert host.catalog.evict(KIB, now=105) == Evicted(1, KIB, 0)


def test_f4_what_left_between_lookup_and_read_is_a_plain_miss_with_a_cause() -> None:
    host = Host(2 * KIB)
    host.put(1, 2)
    assert host.there(1)
    host.put(3)
    lease = host.catalog.lease(7, digests(1, 2), now=0, until=10)
    assert lease.answers.tolist() == [Answer.ABSENT, Answer.FOUND]
    assert host.why(1, 2, 99) == [Cause.EVICTED, Cause.PRESENT, Cause.NEVER]


@pytest.mark.parametrize("policy", POLICIES)
def test_f7_a_group_leaves_whole(policy: type[Policy]) -> None:
    host = Host(8 * KIB, policy=policy)
    host.put(*range(8))
    host.catalog.group(digests(0, 5))
    host.put(10)
    assert host.there(0, 5) == [False, False]
    host.put(11)
    host.catalog.group(digests(1, 2))
    host.catalog.lease(7, digests(2), now=0, until=10)
    host.put(12, 13, 14, 15, now=9)
    assert host.there(1, 2) == [True, True]


@pytest.mark.parametrize("policy", POLICIES)
def test_f8_filling_beyond_capacity_evicts(policy: type[Policy]) -> None:
    host = Host(16 * KIB, policy=policy)
    for start in range(0, 160, 8):
        assert host.put(*range(start, start + 8)) == [Answer.STORED] * 8
    assert sum(host.there(*range(160))) == 16
    assert host.catalog.usage().free == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_f8_a_pool_that_may_not_give_way_says_why(policy: type[Policy]) -> None:
    host = Host(4 * KIB, policy=policy)
    host.put(1, 2, 3, 4)
    host.catalog.pin(digests(1, 2, 3, 4), Pin.HARD)
    assert host.put(5) == [Answer.PINNED]
    host.catalog.lease(7, digests(1, 2), now=0, until=100)
    assert host.put(5) == [Answer.LEASED]
    host.catalog.pin(digests(1, 2, 3, 4), Pin.NONE)
    assert host.put(5) == [Answer.STORED]
    assert host.put(6, size=4 * KIB) == [Answer.LEASED]
    assert host.put(6, size=4 * KIB + 1) == [Answer.TOO_LARGE]
    host.catalog.drain(now=100)
    assert host.put(6) == [Answer.DRAINING]


def test_f8_a_pool_that_writers_hold_says_full() -> None:
    host = Host(4 * KIB)
    host.catalog.reserve(1, np.full(4, KIB), now=0)
    assert host.put(1) == [Answer.FULL]
    assert host.catalog.quarantine(1) == 4 * KIB
    assert host.put(1) == [Answer.FULL]
    assert host.catalog.gone(1) == 4 * KIB
    assert host.put(1) == [Answer.STORED]


def test_soft_pins_fall_under_pressure_and_hard_ones_do_not() -> None:
    host = Host(4 * KIB)
    host.put(1, 2, 3, 4)
    host.catalog.pin(digests(1), Pin.SOFT)
    host.catalog.pin(digests(2), Pin.HARD)
    host.put(5, 6)
    assert host.there(1, 2, 3, 4) == [True, True, False, False]
    host.put(7, 8, 9)
    assert host.there(1, 2) == [False, True]


@pytest.mark.parametrize("seed", range(3))
def test_f9_a_large_put_succeeds_among_small_objects(seed: int) -> None:
    """Free space twice the object is enough, wherever the small ones lie."""
    host, rng = Host(256 * KIB, 4096, entries_high=1.0), np.random.default_rng(seed)
    host.put(*range(2000), size=100)
    keep = rng.permutation(2000)[:1000]
    host.catalog.remove(digests(*np.setdiff1d(np.arange(2000), keep)), now=0)
    assert host.catalog.usage().free >= 128 * KIB
    for number in range(3000, 3006):
        assert host.put(number, size=64 * KIB) == [Answer.STORED]


def test_f9_what_is_scattered_among_pins_is_called_so() -> None:
    host = Host(16 * KIB)
    host.put(*range(16))
    host.catalog.pin(digests(*range(0, 16, 2)), Pin.HARD)
    host.catalog.remove(digests(*range(1, 16, 2)), now=0)
    assert host.put(99, size=2 * KIB) == [Answer.FRAGMENTED]
    assert host.put(99) == [Answer.STORED]


def test_f11_whatever_was_asked_at_lookup_comes_back() -> None:
    host = Host(4 * KIB)
    host.put(1, 2, 3, 4)
    tickets = [host.catalog.lease(7, digests(1, 2), 0, FOREVER).ticket for _ in range(5)]
    for ticket in [*tickets, *tickets]:
        host.catalog.release(7, ticket)
    assert host.put(5, 6, 7, 8) == [Answer.STORED] * 4
    assert host.catalog.check_integrity() == []


def test_f12_a_pool_is_one_tenants_and_evicts_nobody_elses() -> None:
    mine, theirs = Host(2 * KIB), Host(2 * KIB)
    theirs.put(1, 2)
    mine.put(*range(10))
    assert theirs.there(1, 2) == [True, True]


def test_g1_of_two_writers_of_a_key_one_wins_whole() -> None:
    host = Host(4 * KIB)
    one = host.catalog.reserve(1, np.array([KIB]), 0)
    other = host.catalog.reserve(2, np.array([KIB]), 0)
    key, length = digests(1), np.array([KIB], np.uint64)
    assert host.catalog.commit(2, other.attempts, key, length, 0).tolist() == [Answer.STORED]
    assert host.catalog.commit(1, one.attempts, key, length, 0).tolist() == [Answer.PRESENT]
    assert host.catalog.find(key)["offset"].tolist() == other.offsets.tolist()
    assert host.catalog.usage().free == 3 * KIB


def test_g1_values_above_two_gibibytes_are_whole() -> None:
    host = Host(16 << 30)
    assert host.put(1, size=(5 << 30) + 3) == [Answer.STORED]
    assert host.catalog.find(digests(1))["length"].tolist() == [(5 << 30) + 3]


def test_g2_a_second_completion_is_refused_and_harms_nobody() -> None:
    host = Host(4 * KIB)
    got = host.catalog.reserve(1, np.array([KIB]), 0)
    twice, length = got.attempts[[0, 0]], np.full(2, 5, np.uint64)
    answers = host.catalog.commit(1, twice, digests(1, 2), length, 0)
    assert answers.tolist() == [Answer.STORED, Answer.LATE]
    assert host.catalog.commit(1, twice, digests(3, 3), length, 0).tolist() == [Answer.LATE] * 2
    assert host.there(1, 2, 3) == [True, False, False]


def test_g3_a_duplicate_is_an_outcome_of_its_own() -> None:
    host = Host(4 * KIB)
    assert host.put(1, 2, 1) == [Answer.STORED, Answer.STORED, Answer.PRESENT]
    assert host.put(1) == [Answer.PRESENT]
    assert host.catalog.usage().objects == 2 * KIB


def test_empty_values_are_there() -> None:
    host = Host(4 * KIB)
    assert host.put(1, size=0) == [Answer.STORED]
    entry = host.catalog.find(digests(1, 2))
    assert entry["length"].tolist() == [0, 0]
    assert [bool(g) for g in entry["generation"]] == [True, False]


@pytest.mark.parametrize("policy", POLICIES)
def test_i6_the_index_has_a_limit_of_its_own(policy: type[Policy]) -> None:
    host = Host(1 << 30, entries=64, policy=policy)
    for start in range(0, 640, 8):
        answers = host.put(*range(start, start + 8), size=64)
        assert set(answers) <= {Answer.STORED, Answer.INDEX_FULL}
        assert answers.count(Answer.STORED) >= 7
    assert 40 <= host.catalog.usage().count <= 48


def test_j1_late_writers_reach_no_object() -> None:
    """A user that is put out keeps its extents, and what it commits later is refused."""
    host = Host(4 * KIB)
    got = host.catalog.reserve(2, np.full(2, KIB), now=0)
    host.catalog.quarantine(2)
    host.put(*range(10))
    objects = host.catalog.find(digests(*range(10)))
    offsets = objects["offset"][objects["generation"] != 0].tolist()
    assert not set(offsets) & set(got.offsets.tolist())
    late = host.catalog.commit(2, got.attempts, digests(50, 51), np.full(2, 9, np.uint64), 0)
    assert late.tolist() == [Answer.LATE] * 2
    assert host.why(50) == [Cause.REFUSED]
    assert host.catalog.usage().quarantined == 2 * KIB
    assert host.catalog.abort(2, got.attempts).tolist() == [Answer.ABORTED] * 2
    assert host.catalog.usage().quarantined == 0


def test_j4_releasing_twice_is_harmless() -> None:
    host = Host(4 * KIB)
    host.put(1)
    one, other = (host.catalog.lease(user, digests(1), 0, 50).ticket for user in (1, 2))
    assert [host.catalog.release(1, one) for _ in range(3)] == [True, False, False]
    assert host.catalog.remove(digests(1), now=0).tolist() == [Answer.LEASED]
    host.catalog.release(2, other)
    assert host.catalog.remove(digests(1), now=0).tolist() == [Answer.REMOVED]


def test_what_a_reader_holds_is_free_only_when_it_lets_go() -> None:
    host = Host(4 * KIB)
    host.put(1, 2, 3, 4)
    host.held = {int(host.catalog.find(digests(1))["generation"][0])}
    assert host.put(5) == [Answer.STORED]
    assert host.there(1, 2) == [False, False]  # 1 left, and its bytes are no use yet
    assert host.catalog.usage().deferred == KIB
    host.held.clear()
    assert host.catalog.trim(now=0).bytes >= KIB
    assert host.catalog.usage().deferred == 0


def test_draining_sees_everybody_off_once() -> None:
    host = Host(8 * KIB)
    host.put(*range(8))
    host.held = {int(host.catalog.find(digests(3))["generation"][0])}
    lease = host.catalog.lease(7, digests(5), 0, 10)
    assert host.catalog.drain(now=0) == Evicted(7, 6 * KIB, KIB)
    assert host.catalog.drain(now=5) == Evicted(0, 0, 0)
    host.held.clear()
    assert host.catalog.drain(now=5) == Evicted(0, KIB, 0)
    host.catalog.release(7, lease.ticket)
    assert host.catalog.drain(now=5) == Evicted(1, KIB, 0)
    assert host.catalog.usage().free == 8 * KIB
    assert host.why(3, 5) == [Cause.DRAINED] * 2


def test_watermarks() -> None:
    host = Host(100 * KIB, high=0.9, low=0.5)
    host.put(*range(90))
    assert host.catalog.trim(now=0) == Evicted()
    host.put(90)
    assert host.catalog.trim(now=0) == Evicted(41, 41 * KIB, 0)
    assert host.there(40, 41) == [False, True]


def test_trimming_goes_on_below_the_high_watermark_until_it_is_done() -> None:
    host = Host(4096 * KIB, entries=8192, high=0.9, low=0.4)
    host.put(*range(3700))
    left = [host.catalog.trim(now=0).objects for _ in range(4)]
    assert left == [1024, 1024, 3700 - 2 * 1024 - 1638, 0]
    host.put(*range(5000, 5040))
    assert host.catalog.trim(now=0) == Evicted()


def test_objects_expire_unless_leased() -> None:
    host = Host(4 * KIB)
    got = host.catalog.reserve(1, np.full(2, KIB), 0)
    host.catalog.commit(
        1,
        got.attempts,
        digests(1, 2),
        np.full(2, 9, np.uint64),
        0,
        expires=np.array([50, 50]),
    )
    host.catalog.lease(7, digests(2), 0, 60)
    assert host.catalog.expire(now=49) == Evicted()
    assert host.catalog.expire(now=50) == Evicted(1, KIB, 0)
    assert host.catalog.expire(now=60) == Evicted(1, KIB, 0)
    assert host.why(1, 2) == [Cause.EXPIRED] * 2
    host.put(1)
    assert host.catalog.expire(now=99) == Evicted()


def test_why_knows_what_the_caller_found_out() -> None:
    host = Host(4 * KIB)
    host.put(1)
    host.catalog.remove(digests(1), 0, Cause.CORRUPT)
    host.catalog.note(digests(2), Cause.NODE_GONE)
    host.catalog.note(digests(3), Cause.OTHER_TENANT)
    assert host.why(1, 2, 3) == [Cause.CORRUPT, Cause.NODE_GONE, Cause.OTHER_TENANT]


def test_touches_of_an_earlier_stay_count_for_nothing() -> None:
    host = Host(4 * KIB)
    host.put(1, 2, 3, 4)
    entry = host.catalog.find(digests(1))
    slot = entry["slot"].astype(np.int64)
    host.catalog.touch(slot, entry["generation"].astype(np.uint32) + np.uint32(1))
    assert host.put(5) == [Answer.STORED]
    assert not any(host.there(1))
    for nonsense in (-1, 1 << 32, 1 << 60):
        host.catalog.touch(np.array([nonsense]), np.zeros(1, np.uint32))
    entry = host.catalog.find(digests(2))
    host.catalog.touch(entry["slot"].astype(np.int64), entry["generation"].astype(np.uint32))
    host.put(6)
    assert host.there(2, 3) == [True, False]


def test_a_chain_leaves_from_its_end() -> None:
    host = Host(4 * KIB, policy=PrefixLru)
    got = host.catalog.reserve(1, np.full(4, KIB), 0)
    chain, lengths = digests(1, 2, 3, 4), np.full(4, KIB, np.uint64)
    host.catalog.commit(1, got.attempts, chain, lengths, 0, parents=digests(1, 1, 2, 3))
    host.put(5)
    assert host.there(1, 2, 3, 4) == [True, True, True, False]
    host.put(6, 7)
    assert host.there(1, 2, 3, 5) == [True, False, False, True]


def test_removing_twice_what_is_leased_says_so_twice() -> None:
    host = Host(4 * KIB)
    host.put(1, 2)
    ticket = host.catalog.lease(7, digests(1), 0, 50).ticket
    assert host.catalog.remove(digests(1, 1), now=0).tolist() == [Answer.LEASED] * 2
    assert host.catalog.remove(digests(1), now=49).tolist() == [Answer.LEASED]
    host.catalog.release(7, ticket)
    removed = host.catalog.remove(digests(1, 2, 1), now=49).tolist()
    assert removed == [Answer.REMOVED, Answer.REMOVED, Answer.ABSENT]
    assert host.catalog.remove(digests(1), now=49).tolist() == [Answer.ABSENT]
    assert host.catalog.check_integrity() == []


def test_an_attempt_that_was_too_long_stands() -> None:
    host = Host(4 * KIB)
    got, key = host.catalog.reserve(1, np.array([KIB]), 0), digests(1)
    for length, answer in ((KIB + 1, Answer.TOO_LARGE), (KIB, Answer.STORED)):
        lengths = np.array([length], np.uint64)
        assert host.catalog.commit(1, got.attempts, key, lengths, 0).tolist() == [answer]
        assert host.there(1) == [answer == Answer.STORED]
    assert host.catalog.check_integrity() == []


def test_an_attempt_for_which_no_entry_was_free_stands() -> None:
    host = Host(64 * KIB, entries=16)
    host.put(*range(12))
    host.catalog.pin(digests(*range(12)), Pin.HARD)
    got, key = host.catalog.reserve(1, np.array([KIB]), 0), digests(50)
    lengths = np.array([KIB], np.uint64)
    for _ in range(2):
        answers = host.catalog.commit(1, got.attempts, key, lengths, 0)
        assert answers.tolist() == [Answer.INDEX_FULL]
        assert host.why(50) == [Cause.REFUSED]
    host.catalog.pin(digests(3), Pin.NONE)
    assert host.catalog.commit(1, got.attempts, key, lengths, 0).tolist() == [Answer.STORED]
    assert host.there(3, 50) == [False, True]
    assert host.catalog.usage().count == 12
    assert host.catalog.check_integrity() == []


def test_one_user_cannot_reserve_a_pool_for_itself() -> None:
    host = Host(16 * KIB, reserved_share=0.25)
    got = host.catalog.reserve(1, np.array([KIB, 64 * KIB, 2 * KIB, KIB, KIB]), now=0)
    expected = [Answer.RESERVED, Answer.TOO_LARGE, *[Answer.RESERVED] * 2, Answer.FULL]
    assert got.answers.tolist() == expected
    assert got.rooms.tolist() == [KIB, 0, 2 * KIB, KIB, 0]
    assert host.catalog.reserve(1, np.array([1]), now=0).answers.tolist() == [Answer.FULL]
    host.catalog.quarantine(1)
    assert host.catalog.reserve(1, np.array([1]), now=0).answers.tolist() == [Answer.FULL]
    assert host.catalog.reserve(2, np.full(4, KIB), now=0).answers.tolist() == [Answer.RESERVED] * 4
    host.catalog.abort(1, got.attempts[:1])
    assert host.catalog.reserve(1, np.array([KIB]), now=0).answers.tolist() == [Answer.RESERVED]
    assert host.catalog.check_integrity() == []


def test_one_extent_may_be_as_large_as_the_pool() -> None:
    host = Host(16 * KIB, reserved_share=0.25)
    got = host.catalog.reserve(1, np.array([16 * KIB, 1]), now=0)
    assert got.answers.tolist() == [Answer.RESERVED, Answer.FULL]


def test_one_user_has_only_so_many_extents() -> None:
    host = Host(16 * KIB, reserved_extents=3)
    got = host.catalog.reserve(1, np.full(5, 1), now=0)
    assert got.answers.tolist() == [Answer.RESERVED] * 3 + [Answer.FULL] * 2


def test_what_the_ledger_stored_is_known_to_every_verb() -> None:
    host = Host(4 * KIB)
    for number in range(40):
        got = host.catalog.reserve(1, np.array([KIB]), now=0)
        lengths = np.array([KIB], np.uint64)
        stored = host.ledger.commit(1, got.attempts, digests(number), lengths)
        assert stored.tolist() == [Answer.STORED]
    assert host.there(35, 36, 37, 38, 39) == [False, True, True, True, True]
    got = host.catalog.reserve(1, np.array([KIB]), now=0)
    late = host.ledger.commit(2, got.attempts, digests(60), np.array([9], np.uint64))
    again = host.ledger.commit(1, got.attempts, digests(39), np.array([9], np.uint64))
    assert [*late.tolist(), *again.tolist()] == [Answer.UNKNOWN, Answer.PRESENT]
    assert host.why(60, 39, 36) == [Cause.REFUSED, Cause.PRESENT, Cause.EVICTED]
    assert host.catalog.usage().free == KIB
    assert host.catalog.evict(KIB, now=0).bytes == KIB
    assert host.catalog.check_integrity() == []


def test_a_batch_larger_than_what_is_told_at_once_is_stored() -> None:
    count = ARRIVALS + 500
    host = Host(count * 64, entries=2 * count)
    rng = np.random.default_rng(0)
    keys = rng.integers(0, (1 << 64) - 1, (count, 2), np.uint64)
    got = host.catalog.reserve(1, np.full(count, 64), now=0)
    lengths = np.full(count, 64, np.uint64)
    answers = host.catalog.commit(1, got.attempts, keys, lengths, now=0)
    assert (answers == Answer.STORED).all()
    assert host.catalog.usage().objects == count * 64
    assert host.catalog.check_integrity() == []


def test_keys_that_name_each_other_as_parents_leave_all_the_same() -> None:
    host = Host(4 * KIB, policy=PrefixLru)
    got, lengths = host.catalog.reserve(1, np.full(2, KIB), 0), np.full(2, KIB, np.uint64)
    host.catalog.commit(1, got.attempts, digests(1, 2), lengths, 0, parents=digests(2, 1))
    assert host.catalog.evict(2 * KIB, now=0) == Evicted(2, 2 * KIB, 0)
