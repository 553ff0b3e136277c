"""The sub-allocator against a map of bytes."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvferry.errors import Full, UsageError
from kvferry.memory.suballocator import NumberSet, SubAllocator

SIZE = 4096
ALIGN = 64


class AgainstUnits(RuleBasedStateMachine):
    """The model: one list element a unit of `ALIGN` bytes, None where it is free."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = SubAllocator(SIZE, ALIGN)
        self.units: list[int | None] = [None] * (SIZE // ALIGN)
        self.taken: list[int] = []

    def holes(self) -> list[tuple[int, int]]:
        """(length, start) of every maximal run of free units."""
        found, start = [], None
        for unit, owner in enumerate([*self.units, SIZE]):
            if owner is None and start is None:
                start = unit
            elif owner is not None and start is not None:
                found.append((unit - start, start))
                start = None
        return found

    @rule(size=st.integers(1, SIZE // 4))
    def take(self, size: int) -> None:
        need = -(-size // ALIGN)
        fitting = [hole for hole in self.holes() if hole[0] >= need]
        if not fitting:
            with pytest.raises(Full) as caught:
                self.pool.take(size)
            assert caught.value.cause == "pool_full"
            return
        offset = self.pool.take(size)
        best = min(fitting)[0]
        assert offset % ALIGN == 0
        assert offset // ALIGN in [start for length, start in fitting if length == best]
        for unit in range(offset // ALIGN, offset // ALIGN + need):
            assert self.units[unit] is None
            self.units[unit] = offset
        self.taken.append(offset)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def give(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.taken))
        self.taken.remove(offset)
        self.pool.give(offset)
        self.units = [None if owner == offset else owner for owner in self.units]

    @rule(offset=st.integers(-SIZE, 2 * SIZE))
    def give_what_was_not_taken(self, offset: int) -> None:
        if offset not in self.taken:
            with pytest.raises(UsageError) as caught:
                self.pool.give(offset)
            assert caught.value.cause == "not_taken"

    @invariant()
    def agrees(self) -> None:
        self.pool.check_integrity()
        assert self.pool.free == self.units.count(None) * ALIGN
        assert self.pool.used + self.pool.free == SIZE
        assert self.pool.largest == max((length for length, _ in self.holes()), default=0) * ALIGN


TestAgainstUnits = AgainstUnits.TestCase
TestAgainstUnits.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(
    st.sets(st.integers(0, (1 << 34) - 1), max_size=40),
    st.lists(st.integers(0, 1 << 34), max_size=20),
)
@settings(max_examples=60, deadline=None)
def test_number_set_agrees_with_a_set(members: set[int], questions: list[int]) -> None:
    numbers, model = NumberSet(1 << 34), set(members)
    for member in members:
        numbers.add(member)
    while True:
        for question in [*questions, *model]:
            later = [member for member in model if member >= question]
            assert numbers.at_least(question) == min(later, default=None)
        assert numbers.largest() == max(model, default=None)
        if not model:
            break
        numbers.remove(model.pop())


def test_best_fit_leaves_the_large_hole_alone() -> None:
    pool = SubAllocator(1024, 64)
    small, _wall, large = pool.take(128), pool.take(64), pool.take(512)
    _rest = pool.take(320)
    pool.give(large)
    pool.give(small)
    assert pool.take(100) == small
    assert pool.largest == 512


def test_everything_can_be_taken_and_comes_back_in_one_piece() -> None:
    pool = SubAllocator(1 << 40, 64)
    assert pool.take(1 << 40) == 0
    assert (pool.free, pool.largest) == (0, 0)
    with pytest.raises(Full, match="no room for 1 bytes"):
        pool.take(1)
    pool.give(0)
    assert pool.largest == pool.free == 1 << 40


def test_a_second_give_is_refused() -> None:
    pool = SubAllocator(256)
    offset = pool.take(1)
    pool.give(offset)
    with pytest.raises(UsageError):
        pool.give(offset)
    pool.check_integrity()


@pytest.mark.parametrize(("size", "align"), [(0, 64), (100, 64), (-64, 64), (64, 0)])
def test_impossible_pools_are_refused(size: int, align: int) -> None:
    with pytest.raises(UsageError):
        SubAllocator(size, align)


@pytest.mark.parametrize("size", [0, -1])
def test_impossible_requests_are_refused(size: int) -> None:
    with pytest.raises(UsageError):
        SubAllocator(64).take(size)


def test_integrity_notices_a_broken_table() -> None:
    pool = SubAllocator(256)
    pool._taken[0] = 64
    with pytest.raises(AssertionError, match="gap or overlap"):
        pool.check_integrity()
