"""A catalog with a shelf behind it, over a disk that is a list of rows: at every step what is in
memory, what is on the shelf and what a restart would find are the values that were stored last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvferry._core import NODE
from kvferry.store import Answer, Catalog, Cause, Extents, Limits, Lru
from kvferry.store.answers import Digests
from kvferry.store.dict_index import DictIndex
from kvferry.store.ssd import segments
from kvferry.store.ssd.backlog import Backlog
from kvferry.store.ssd.behind import Behind, Load
from kvferry.store.ssd.record import GONE, VALUE, new_rows, places_of
from kvferry.store.ssd.setup import load
from kvferry.store.ssd.shelf import Records, Shelf
from kvferry.store.ssd.wall import moments_of, walls_of
from kvferry.store.table import Entries, Words
from tests.store.indices import dict_ledger

KEYS = 20
POOL = 4096  # four objects
SIZE = 1000
MOST = 1200


def digests(keys: list[int]) -> Any:
    words = np.array(keys, np.uint64).reshape(-1, 1) * np.uint64(0x9E3779B97F4A7C15)
    return np.ascontiguousarray(np.concatenate((words, words ^ np.uint64(0x5555)), axis=1))


def words(*numbers: int) -> Words:
    return np.array(numbers, np.uint64)


NAMES = {tuple(digest): key for key, digest in enumerate(digests(list(range(KEYS))).tolist())}


class Disk:
    """Rows in the order in which they were written, by segment."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []  # segment, kind, key, version
        self.segment = 0

    def write(self, kind: int, key: int, version: int) -> int:
        self.rows.append((self.segment, kind, key, version))
        return int(places_of(self.segment, words(64 * len(self.rows)))[0])


class Known:
    """A witness that keeps what it was told: what the node has, wherever it lies."""

    def __init__(self) -> None:
        self.digests: set[tuple[int, int]] = set()

    def came(self, entries: Entries) -> None:
        self.digests.update(map(tuple, entries["digest"].tolist()))

    def left(self, entries: Entries, cause: Cause) -> None:
        self.digests.difference_update(map(tuple, entries["digest"].tolist()))


class Pair:
    """`truth` is the version of each key that was stored last and not removed since."""

    def __init__(self, seed: int) -> None:
        ledger = dict_ledger(32, 24)
        self.known = Known()
        self.behind = Behind(ledger.index, Shelf(DictIndex(64)), MOST, [self.known])
        ledger.beside(self.behind.shelf.index)
        self.catalog = Catalog(
            ledger,
            Extents(POOL),
            Lru(ledger.index.capacity),
            self.behind.held,
            witnesses=[self.behind],
            dear=self.behind.dear,
        )
        self.index = ledger.index
        self.random = np.random.default_rng(seed)
        self.truth: dict[int, int] = {}
        self.disk = Disk()
        self.load: tuple[Load, list[tuple[int, int]]] | None = None  # under way, and its rows
        self.now = 1
        self.version = 0

    def key(self) -> int:
        return int(self.random.integers(1, KEYS))

    def put(self, user: int, key: int, version: int) -> Answer:
        given = self.catalog.reserve(user, np.array([SIZE]), self.now)
        if given.answers[0] != Answer.RESERVED:
            return Answer(int(given.answers[0]))
        said = self.catalog.commit(
            user, given.attempts, digests([key]), words(SIZE), self.now, attrs=words(version)
        )
        return Answer(int(said[0]))

    # steps

    def store(self) -> None:
        key = self.key()
        self.version += 1
        said = self.put(1, key, self.version)
        there = self.catalog.find(digests([key]))["generation"][0]
        on_shelf = self.behind.shelf.has(digests([key]))[0]
        if said is Answer.STORED:
            assert there
            self.truth[key] = self.version
        elif said is Answer.PRESENT:
            assert there or on_shelf

    def promote(self) -> None:
        key = self.key()
        slots = self.behind.shelf.find(digests([key]))
        if slots[0] >= 0 and self.behind.shelf.lies(slots)[0]:
            self.put(NODE, key, int(self.behind.shelf.read(slots).attrs[0]))

    def remove(self) -> None:
        key = self.key()
        self.catalog.remove(digests([key]), self.now)
        self.behind.bury(digests([key]), Cause.REMOVED)
        self.truth.pop(key, None)

    def take(self) -> None:
        """A load sets out; what it says of the disk is as it is now."""
        if self.load is None:
            load = self.behind.take(2 * MOST, self.catalog.moments(), self.now)
            rows = [(self.named(digest), 0) for digest in load.gone]
            attrs = load.records.attrs.tolist()
            names = [self.named(digest) for digest in load.records.digests]
            self.load = load, [*rows, *zip(names, attrs, strict=True)]

    def named(self, digest: Words) -> int:
        return NAMES[tuple(digest.tolist())]

    def written(self) -> None:
        if self.load is None:
            return
        (load, rows), self.load = self.load, None
        gone = len(load.gone)
        kinds = [GONE] * gone + [VALUE] * (len(rows) - gone)
        both = zip(kinds, rows, strict=True)
        places = np.array([self.disk.write(kind, *row) for kind, row in both], np.int64)
        crcs = np.zeros(len(rows) - gone, np.uint64)
        self.behind.written(load, places[:gone], places[gone:], crcs)

    def failed(self) -> None:
        if self.load is not None:
            (load, _), self.load = self.load, None
            self.behind.failed(load)

    def seal(self) -> None:
        self.disk.segment += 1

    def drop(self) -> None:
        """The oldest segment, or another, whose words about the void are said again."""
        numbers = sorted({row[0] for row in self.disk.rows})
        numbers = [number for number in numbers if number < self.disk.segment]
        if self.load is not None or not numbers:
            return
        number = int(self.random.choice(numbers))
        oldest = number == numbers[0]
        parts = list(self.behind.shelf.segments.parts(number))
        for part in parts:
            self.save(*self.behind.clear(number, not oldest, oldest, 64 * MOST, part))
        self.disk.rows = [row for row in self.disk.rows if row[0] != number]
        for part in parts:
            self.behind.empty(number, part)
        self.behind.shelf.segments.forget(number)

    def save(self, worthy: Records, void: Digests) -> None:
        places = [self.disk.write(GONE, self.named(digest), 0) for digest in void]
        self.behind.shelf.bury(np.array(places, np.int64), void)
        pairs = zip(worthy.digests, worthy.attrs.tolist(), strict=True)
        moved = [self.disk.write(VALUE, self.named(each), attrs) for each, attrs in pairs]
        self.behind.moved(worthy, np.array(moved, np.int64))

    def agree(self) -> None:
        assert self.catalog.check_integrity() == []
        assert self.behind.shelf.check_integrity() == []
        keys = list(range(1, KEYS))
        entries = self.catalog.find(digests(keys))
        slots = self.behind.shelf.find(digests(keys))
        there = (slots >= 0) | (entries["generation"] != 0)
        assert self.known.digests == set(map(tuple, digests(keys)[there].tolist()))
        on_shelf = self.behind.shelf.read(np.maximum(slots, 0)).attrs
        for at, key in enumerate(keys):
            if entries["generation"][at]:
                assert entries["attrs"][at] == self.truth[key]
            if slots[at] >= 0:
                assert on_shelf[at] == self.truth[key]

    def agree_after_a_crash(self) -> None:
        if self.behind.void.asked == self.behind.void.settled:
            assert self.reborn().items() <= self.truth.items()

    def reborn(self) -> dict[int, int]:
        """What a node would find that begins with this disk."""
        again = Behind(DictIndex(32), Shelf(DictIndex(64)), MOST)
        for number in sorted({row[0] for row in self.disk.rows}):
            mine = [row for row in self.disk.rows if row[0] == number]
            rows = new_rows(len(mine))
            rows["kind"] = [row[1] for row in mine]
            rows["digest"] = digests([row[2] for row in mine])
            rows["attrs"] = [row[3] for row in mine]
            places = np.array([int(places_of(number, words(64))[0])] * len(mine), np.int64)
            load(again, rows, places, now=1, wall=1)
        assert again.shelf.check_integrity() == []
        records = again.shelf.read(again.shelf.find(digests(list(range(1, KEYS)))).clip(0))
        there = again.shelf.has(digests(list(range(1, KEYS))))
        return {at + 1: int(records.attrs[at]) for at in np.flatnonzero(there).tolist()}


STEPS: list[tuple[Callable[[Pair], None], int]] = [
    (Pair.store, 8),
    (Pair.promote, 4),
    (Pair.remove, 3),
    (Pair.take, 4),
    (Pair.written, 4),
    (Pair.failed, 1),
    (Pair.seal, 2),
    (Pair.drop, 1),
]


def walk(seed: int, steps: int) -> None:
    pair = Pair(seed)
    kinds = [step for step, weight in STEPS for _ in range(weight)]
    for step in range(steps):
        pair.now += 1
        kinds[int(pair.random.integers(len(kinds)))](pair)
        pair.agree()
        if step % 3 == 0:
            pair.agree_after_a_crash()


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that segments have several."""
    monkeypatch.setattr(segments, "PART", 2)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_old_is_ever_found(seed: int) -> None:
    walk(seed, 120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 33))
def test_nothing_old_is_ever_found_in_full(seed: int) -> None:
    walk(seed, 1500)


def test_what_is_read_to_be_written_keeps_its_bytes() -> None:
    pair = Pair(1)
    assert pair.put(1, 1, 1) is Answer.STORED
    pair.take()
    pair.catalog.remove(digests([1]), pair.now)
    assert pair.catalog.usage().deferred >= SIZE
    pair.written()
    pair.catalog.expire(pair.now)
    assert pair.catalog.usage().deferred == 0
    assert pair.behind.void.asked == 1


def test_the_backlog_forgets_what_has_left() -> None:
    ledger = dict_ledger(32, 24)
    backlog = Backlog(ledger.index)
    for at in range(100):
        backlog.add(np.array([0]), words(at + 1))
    assert len(backlog) <= 2 * ledger.index.capacity
    assert len(backlog.take(1 << 20)) == 0
    assert len(backlog) == 0


def test_moments_on_two_clocks() -> None:
    moments = words(0, 5, 1000, 1 << 63)
    walls = walls_of(moments, now=100, wall=10_000)
    assert walls.tolist() == [0, 9905, 10_900, (1 << 62) + 9900]
    assert moments_of(walls, now=7, wall=10_000).tolist()[:3] == [0, 1, 907]


def test_causes_that_reach_the_disk() -> None:
    """Eviction and draining are of memory alone; whatever else takes an object takes its record."""
    for cause in (Cause.EVICTED, Cause.DRAINED, Cause.REMOVED, Cause.EXPIRED, Cause.CORRUPT):
        pair = Pair(2)
        pair.put(1, 1, 1)
        pair.take()
        pair.written()
        pair.catalog.remove(digests([1]), pair.now, cause)
        stays = cause in (Cause.EVICTED, Cause.DRAINED)
        assert pair.behind.shelf.has(digests([1]))[0] == stays


class Everything:
    """Of a catalog to which all is dear."""

    def __init__(self, objects: int) -> None:
        ledger = dict_ledger(4 * objects, 3 * objects)
        self.asked = 0
        self.catalog = Catalog(
            ledger,
            Extents(objects * 64),
            Lru(ledger.index.capacity),
            lambda generations: np.zeros(len(generations), np.bool_),
            Limits(reserved_share=1.0),
            dear=self.dear,
        )
        keys = digests(list(range(objects)))
        given = self.catalog.reserve(1, np.full(objects, 64), 1)
        lengths = np.full(objects, 64, np.uint64)
        self.catalog.commit(1, given.attempts, keys, lengths, 1)

    def dear(self, slots: Any) -> Any:
        self.asked += len(slots)
        return np.ones(len(slots), np.bool_)


def test_what_is_dear_leaves_when_nothing_else_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not all of it is asked about."""
    monkeypatch.setattr("kvferry.store.evictor.SPARED", 8)
    made = Everything(16)
    gone = made.catalog.evict(3 * 64, 1)
    assert gone.objects == 3
    assert 0 < made.asked <= 8
    assert made.catalog.check_integrity() == []
    assert made.catalog.evict(1 << 20, 1).objects == 13
