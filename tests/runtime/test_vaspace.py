"""Carving a reservation into blocks, against a list of blocks."""

from __future__ import annotations

import gc
import itertools
import random
import threading

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvferry.errors import NoMemory, UsageError
from kvferry.runtime.vaspace import BLOCK, VaSpace, sizes_to_try

TB = 1 << 40
UNIT = 4096
COUNT = 24
BASE = 5 * UNIT


class AgainstBlocks(RuleBasedStateMachine):
    """The model: one list element a block, the address it was taken at or None."""

    def __init__(self) -> None:
        super().__init__()
        self.space = VaSpace(BASE, COUNT * UNIT, UNIT)
        self.blocks: list[int | None] = [None] * COUNT

    def taken(self) -> list[int]:
        return sorted({owner for owner in self.blocks if owner is not None})

    def fits(self, index: int, need: int, align: int) -> bool:
        free = self.blocks[index : index + need] == [None] * need
        return free and (BASE + index * UNIT) % align == 0

    @rule(size=st.integers(1, 9 * UNIT), shift=st.integers(-1, 4))
    def take(self, size: int, shift: int) -> None:
        need = -(-size // UNIT)
        align = UNIT << shift if shift >= 0 else UNIT // 2
        starts = [index for index in range(COUNT) if self.fits(index, need, align)]
        if not starts:
            with pytest.raises(NoMemory, match=f"asked for {size} bytes"):
                self.space.take(size, align)
            return
        address = self.space.take(size, align)
        assert address == BASE + starts[0] * UNIT
        self.blocks[starts[0] : starts[0] + need] = [address] * need

    @precondition(lambda self: self.taken())
    @rule(data=st.data())
    def give(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(self.taken()))
        self.space.give(address)
        self.blocks = [None if owner == address else owner for owner in self.blocks]

    @rule(address=st.integers(0, BASE + COUNT * UNIT))
    def give_what_is_not_taken(self, address: int) -> None:
        if address not in self.taken():
            with pytest.raises(UsageError) as caught:
                self.space.give(address)
            assert caught.value.cause == "not_taken"

    @invariant()
    def the_same_is_free(self) -> None:
        holes = [sum(1 for _ in run) for owner, run in itertools.groupby(self.blocks) if not owner]
        assert self.space.available == sum(holes) * UNIT
        assert self.space.largest == max(holes, default=0) * UNIT


AgainstBlocks.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAgainstBlocks = AgainstBlocks.TestCase


def test_as_large_as_the_default_and_full() -> None:
    space = VaSpace(40 * TB, 32 * TB)
    sizes = random.Random(1).choices([1, BLOCK, 3 * BLOCK + 1, 100 * BLOCK], k=300)
    addresses = [space.take(size) for size in sizes]
    assert addresses[0] == 40 * TB
    for address in addresses[::2]:
        space.give(address)
    rest = space.available
    holes = 0
    while space.available:
        space.take(space.largest)
        holes += 1
    assert holes > 50
    assert rest > 0
    with pytest.raises(NoMemory):
        space.take(1)


def test_exhaustion_names_what_there_is() -> None:
    space = VaSpace(TB, 4 * BLOCK)
    first, _, third, _ = (space.take(BLOCK) for _ in range(4))
    space.give(first)
    space.give(third)
    with pytest.raises(NoMemory) as caught:
        space.take(BLOCK + 1)
    assert caught.value.cause == "no_addresses"
    said = f"{BLOCK + 1} bytes", f"{2 * BLOCK} of {4 * BLOCK}", f"{BLOCK} in one piece"
    assert all(each in str(caught.value) for each in said)


def test_a_second_give_is_refused() -> None:
    space = VaSpace(TB, 2 * BLOCK)
    address = space.take(1)
    space.give(address)
    with pytest.raises(UsageError, match="no addresses are taken at 0x10000000000"):
        space.give(address)
    assert space.available == 2 * BLOCK


def test_blocks_begin_at_multiples_of_a_block_wherever_the_base_is() -> None:
    space = VaSpace(TB + 4096, 3 * BLOCK)
    assert (space.first, space.capacity) == (TB + BLOCK, 2 * BLOCK)
    assert space.take(2 * BLOCK) == TB + BLOCK


def test_alignment_above_a_block() -> None:
    space = VaSpace(TB + BLOCK, 64 * BLOCK)
    assert space.take(1, 16 * BLOCK) == TB + 16 * BLOCK
    assert space.take(1, 16 * BLOCK) == TB + 32 * BLOCK
    assert space.take(1) == TB + BLOCK
    with pytest.raises(NoMemory):
        space.take(1, 2 * TB)


@pytest.mark.parametrize(
    ("base", "capacity", "block"),
    [(TB, 0, BLOCK), (TB, -1, BLOCK), (TB + 1, BLOCK, BLOCK), (-TB, 2 * TB, BLOCK), (0, 9, 3)],
)
def test_no_block_fits(base: int, capacity: int, block: int) -> None:
    with pytest.raises(UsageError):
        VaSpace(base, capacity, block)


@pytest.mark.parametrize(("size", "align"), [(0, BLOCK), (-1, BLOCK), (1, -4096), (1, 3 * BLOCK)])
def test_nothing_is_taken_for_bad_arguments(size: int, align: int) -> None:
    space = VaSpace(TB, 2 * BLOCK)
    with pytest.raises(UsageError):
        space.take(size, align)
    assert space.available == 2 * BLOCK


def test_threads_never_get_the_same_address() -> None:
    space = VaSpace(TB, 64 * BLOCK)
    held: set[int] = set()
    wrong: list[int] = []

    def take_and_give() -> None:
        for _ in range(300):
            address = space.take(BLOCK)
            if address in held:
                wrong.append(address)
            held.add(address)
            held.discard(address)
            space.give(address)

    threads = [threading.Thread(target=take_and_give) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert space.available == space.capacity


def test_the_collector_may_give_back_amid_a_take() -> None:
    """With the lock taken by this very thread, a `give` that wanted it would stand still."""

    class Holder:
        def __init__(self) -> None:
            self.address, self.me = space.take(1), self

        def __del__(self) -> None:
            space.give(self.address)

    space = VaSpace(TB, 8 * BLOCK)
    holder = Holder()
    del holder
    with space._lock:
        gc.collect()
    assert space.available == 8 * BLOCK


@given(st.integers(0, 64 * TB))
def test_halves_down_to_one_block(capacity: int) -> None:
    sizes = list(sizes_to_try(capacity))
    assert sizes == sorted(set(sizes), reverse=True)
    assert all(size % BLOCK == 0 and 0 < size <= capacity for size in sizes)
    assert sizes[-1:] == ([BLOCK] if capacity >= BLOCK else [])


def test_sizes_of_the_default() -> None:
    assert list(sizes_to_try(32 * TB)) == [BLOCK << shift for shift in range(15, -1, -1)]
