"""The shelf against a dict, step by step, over both indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from kvferry._core import Index, index_bytes
from kvferry.store.dict_index import DictIndex
from kvferry.store.ssd.record import places_of, segment_of
from kvferry.store.ssd.shelf import FULL, Shelf, footprints
from kvferry.store.table import Ints, Words

LINE = 64


class NativeIndex:
    def __init__(self, capacity: int) -> None:
        length = index_bytes(capacity)
        self._memory = np.zeros(length + LINE, np.uint8)
        address = self._memory.ctypes.data
        self._index = Index(address + -address % LINE, length, 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


INDICES: list[Callable[[int], Any]] = [DictIndex, NativeIndex]


def digests(keys: list[int]) -> Any:
    words = np.array(keys, np.uint64).reshape(-1, 1) * np.uint64(0x9E3779B97F4A7C15)
    return np.ascontiguousarray(np.concatenate((words, words ^ np.uint64(0x5555)), axis=1))


def words(numbers: list[int]) -> Words:
    return np.array(numbers, np.uint64)


class Kept(NamedTuple):
    """What the model knows of an object."""

    generation: int
    length: int
    place: int | None  # None: it is being written
    crc: int
    moment: int
    used: bool = False


class Pair:
    """A shelf, and a dict that says what it should hold."""

    def __init__(self, index: Any, seed: int) -> None:
        self.shelf = Shelf(index)
        self.model: dict[int, Kept] = {}
        self.gone: dict[int, list[int]] = {}
        self.random = np.random.default_rng(seed)
        self.segment, self.at = 0, 64
        self.open: list[tuple[int, int, int]] = []  # key, slot, generation that are being written
        self.keys = 60

    def some(self, most: int = 8) -> list[int]:
        count = int(self.random.integers(1, most))
        return sorted({int(key) for key in self.random.integers(1, self.keys, count)})

    def places(self, lengths: list[int]) -> Ints:
        places = []
        for length in lengths:
            places.append(int(places_of(self.segment, words([self.at]))[0]))
            self.at += int(footprints(words([length]))[0])
        if self.at > 20_000:
            self.segment, self.at = self.segment + 1, 64
        return np.array(places, np.int64)

    # steps

    def begin(self) -> None:
        keys = self.some()
        lengths = [int(length) for length in self.random.integers(0, 3000, len(keys))]
        moments = [int(self.random.integers(0, 3)) * 100 for _ in keys]
        columns = digests(keys), words(lengths), words([0] * len(keys)), words(moments)
        slots = self.shelf.begin(*columns)
        generations = self.shelf.read(np.maximum(slots, 0)).generations
        rows = zip(keys, slots.tolist(), generations.tolist(), lengths, moments, strict=True)
        for key, slot, generation, length, moment in rows:
            assert (slot >= 0) == (key not in self.model) or slot == FULL
            if slot >= 0:
                self.model[key] = Kept(generation, length, None, 0, moment)
                self.open.append((key, slot, generation))

    def land(self) -> None:
        """Part of what is being written, in any order, with what has left or came anew since."""
        taken, self.open = self.open[::2], self.open[1::2]
        generations = words([generation for _, _, generation in taken])
        lengths = [self.model[key].length if key in self.model else 1 for key, _, _ in taken]
        places, crcs = self.places(lengths), generations * np.uint64(7)
        slots = np.array([slot for _, slot, _ in taken], np.int64)
        here = 0
        for (key, _, generation), place in zip(taken, places.tolist(), strict=True):
            kept = self.model.get(key)
            if kept is not None and kept.generation == generation:
                here += 1
                self.model[key] = kept._replace(place=place, crc=generation * 7, used=False)
        assert self.shelf.land(slots, generations, places, crcs) == here

    def cancel(self) -> None:
        taken, self.open = self.open[:2], self.open[2:]
        slots = np.array([slot for _, slot, _ in taken], np.int64)
        left = self.shelf.cancel(slots, words([each[2] for each in taken]))
        mine = [
            key
            for key, _, generation in taken
            if key in self.model and self.model[key].generation == generation
        ]
        assert left["digest"].tolist() == digests(mine).tolist()
        for key in mine:
            del self.model[key]

    def forget(self) -> None:
        keys = [key for key in self.some() if key in self.model]
        self.shelf.forget(self.shelf.find(digests(keys)))
        for key in keys:
            del self.model[key]
        if keys:
            self.shelf.bury(self.places([0] * len(keys)), digests(keys))

    def use(self) -> None:
        keys = [key for key in self.some() if key in self.model]
        self.shelf.used(self.shelf.find(digests(keys)))
        for key in keys:
            self.model[key] = self.model[key]._replace(used=True)

    def rewrite(self) -> None:
        """What lies is written once more, somewhere else; some of it leaves meanwhile."""
        keys = [key for key in self.some() if key in self.model]
        keys = [key for key in keys if self.model[key].place is not None]
        records = self.shelf.read(self.shelf.find(digests(keys)))
        for key in keys[:1]:
            self.shelf.forget(self.shelf.find(digests([key])))
            del self.model[key]
        places = self.places(records.lengths.tolist())
        self.shelf.land(records.slots, records.generations, places, records.crcs)
        for key, place in list(zip(keys, places.tolist(), strict=True))[1:]:
            self.model[key] = self.model[key]._replace(place=place, used=False)

    def drop(self) -> None:
        numbers = [number for number in self.shelf.segments.numbers() if number < self.segment]
        if not numbers:
            return
        number = int(self.random.choice(numbers))
        there = {
            key
            for key, kept in self.model.items()
            if kept.place is not None and kept.place >> 30 == number
        }
        used = {key for key in there if self.model[key].used}
        assert len(self.shelf.contents(number)) == len(there)
        assert len(self.shelf.worthy(number, sparse=False, most=1 << 40)) == len(used)
        assert len(self.shelf.worthy(number, sparse=True, most=1 << 40)) == len(there)
        left = self.shelf.drop(number)["digest"]
        assert sorted(left.tolist()) == sorted(digests(sorted(there)).tolist())
        for key in there:
            del self.model[key]

    def expire(self) -> None:
        slots = self.shelf.due(100)
        keys = [key for key, kept in self.model.items() if 0 < kept.moment <= 100]
        assert sorted(slots.tolist()) == sorted(self.shelf.find(digests(keys)).tolist())
        assert self.shelf.over(slots, 100).all()
        self.shelf.forget(slots)
        for key in keys:
            del self.model[key]

    def agree(self) -> None:
        assert self.shelf.check_integrity() == []
        keys = list(range(1, self.keys))
        has = dict(zip(keys, self.shelf.has(digests(keys)).tolist(), strict=True))
        assert {key for key in keys if has[key]} == set(self.model)
        slots = self.shelf.find(digests(list(self.model)))
        records = self.shelf.read(slots)
        lies = self.shelf.lies(slots).tolist()
        for row, (key, kept) in enumerate(self.model.items()):
            assert lies[row] == (kept.place is not None), key
            assert records.lengths[row] == kept.length
            assert records.generations[row] == kept.generation
            assert records.moments[row] == kept.moment
            if kept.place is not None:
                assert (records.places[row], records.crcs[row]) == (kept.place, kept.crc)
        assert self.shelf.count == len(self.model)
        assert self.shelf.writing == sum(kept.place is None for kept in self.model.values())


STEPS: list[tuple[Callable[[Pair], None], int]] = [
    (Pair.begin, 6),
    (Pair.land, 5),
    (Pair.cancel, 1),
    (Pair.forget, 2),
    (Pair.use, 2),
    (Pair.rewrite, 2),
    (Pair.drop, 1),
    (Pair.expire, 1),
]


def walk(make: Callable[[int], Any], seed: int, steps: int) -> None:
    pair = Pair(make(48), seed)
    kinds = [step for step, weight in STEPS for _ in range(weight)]
    for _ in range(steps):
        kinds[int(pair.random.integers(len(kinds)))](pair)
        pair.agree()


@pytest.mark.parametrize("make", INDICES)
@pytest.mark.parametrize("seed", range(2))
def test_it_is_what_the_model_says(make: Callable[[int], Any], seed: int) -> None:
    walk(make, seed, 100)


@pytest.mark.slow
@pytest.mark.parametrize("make", INDICES)
@pytest.mark.parametrize("seed", range(3, 23))
def test_it_is_what_the_model_says_in_full(make: Callable[[int], Any], seed: int) -> None:
    walk(make, seed, 1500)


def test_the_twins_agree() -> None:
    pairs = [Pair(make(48), 7) for make in INDICES]
    for turn in range(100):
        for pair in pairs:
            STEPS[turn * 5 % len(STEPS)][0](pair)
        assert pairs[0].model == pairs[1].model
        assert pairs[0].open == pairs[1].open


def lying(shelf: Shelf, segment: int, keys: list[int], length: int = 1000) -> Ints:
    """Records of these keys in one segment; their slots."""
    count = len(keys)
    nothing = words([0] * count)
    slots = shelf.begin(digests(keys), words([length] * count), nothing, nothing)
    generations = shelf.read(slots).generations
    places = places_of(segment, words([64 * at for at in range(count)]))
    shelf.land(slots, generations, places, nothing)
    return slots


def test_the_oldest_leaves_unless_another_is_almost_empty() -> None:
    shelf = Shelf(DictIndex(64))
    lying(shelf, 3, [1, 2, 3, 4])
    slots = lying(shelf, 5, [5, 6, 7, 8])
    numbers, sizes = np.array([3, 5]), np.array([4400, 4400])
    assert shelf.segments.victim(numbers, sizes) == (3, False)
    shelf.forget(slots[:2])
    assert shelf.segments.victim(numbers, sizes) == (3, False)
    shelf.forget(slots[2:])
    assert shelf.segments.victim(numbers, sizes) == (5, True)


def test_what_was_read_stays_for_one_more_round() -> None:
    shelf = Shelf(DictIndex(64))
    slots = lying(shelf, 1, [1, 2, 3])
    shelf.used(slots[1:])
    assert shelf.worthy(1, sparse=False, most=1 << 20).tolist() == sorted(slots[1:].tolist())
    assert len(shelf.worthy(1, sparse=False, most=1200)) == 1
    records = shelf.read(slots[1:])
    shelf.land(records.slots, records.generations, places_of(2, words([64, 2048])), records.crcs)
    assert len(shelf.worthy(2, sparse=False, most=1 << 20)) == 0  # not read since
    assert shelf.drop(1)["digest"].tolist() == digests([1]).tolist()
    assert segment_of(shelf.read(slots[1:]).places).tolist() == [2, 2]


def test_a_word_about_the_void_outlives_what_it_is_about() -> None:
    shelf = Shelf(DictIndex(64))
    shelf.bury(places_of(4, words([0, 0, 0])), digests([1, 2, 3]))
    lying(shelf, 5, [2])
    assert shelf.debts(4, oldest=True).tolist() == []
    assert shelf.debts(4, oldest=False).tolist() == digests([1, 3]).tolist()
