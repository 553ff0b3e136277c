"""Lines, trees and ghosts refuse what would lead them out of their memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvferry._core import Ghosts, Queue, Trees

SLOTS = 5
OUTSIDE = [-1, SLOTS, 1 << 32, -(1 << 63)]


def ints(*numbers: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


SIZES = np.ones(SLOTS, np.int64)
STAYS = np.zeros(2, np.bool_)

VERBS: dict[str, Callable[[Queue, Trees, Any], Any]] = {
    "push": lambda queue, trees, slots: queue.push(slots),
    "move": lambda queue, trees, slots: queue.move(slots),
    "drop": lambda queue, trees, slots: queue.drop(slots),
    "holds": lambda queue, trees, slots: queue.holds(slots),
    "first": lambda queue, trees, slots: queue.first(slots),
    "give_back": lambda queue, trees, slots: queue.give_back(slots),
    "insert": lambda queue, trees, slots: trees.insert(slots, ints(4, 4)),
    "parents": lambda queue, trees, slots: trees.insert(ints(3, 4), slots),
    "remove": lambda queue, trees, slots: trees.remove(slots),
    "touch": lambda queue, trees, slots: trees.touch(slots),
    "kin": lambda queue, trees, slots: trees.kin(slots),
    "first of trees": lambda queue, trees, slots: trees.first(slots),
    "leave": lambda queue, trees, slots: trees.leave(slots, STAYS, SIZES, 9),
    "forget": lambda queue, trees, slots: trees.forget(slots, ints()),
    "kept": lambda queue, trees, slots: trees.forget(ints(), slots),
}


@pytest.fixture
def queue() -> Queue:
    queue = Queue(SLOTS)
    queue.push(ints(2, 0))
    return queue


@pytest.fixture
def trees() -> Trees:
    trees = Trees(SLOTS)
    trees.insert(ints(2, 0), ints(2, 2))
    return trees


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("verb", VERBS)
def test_no_slot_leads_outside(queue: Queue, trees: Trees, verb: str, outside: int) -> None:
    with pytest.raises(ValueError, match="slot"):
        VERBS[verb](queue, trees, ints(1, outside))
    assert queue.members().tolist() == [2, 0]
    assert trees.members().tolist() == [0, 2]
    parents, children = trees.kin(ints(*range(SLOTS)))
    assert (parents.tolist(), children.tolist()) == ([2, 1, 2, 3, 4], [0, 0, 1, 0, 0])


def test_batches_have_one_length(trees: Trees) -> None:
    for call in (
        lambda: trees.insert(ints(1, 3), ints(1)),
        lambda: trees.leave(ints(0), STAYS, SIZES, 9),
        lambda: trees.leave(ints(0, 2), STAYS, SIZES[1:], 9),
        lambda: Ghosts(8).tell(np.ones(2, np.uint64), np.ones(1, np.uint32)),
    ):
        with pytest.raises(ValueError, match="length"):
            call()
    assert trees.members().tolist() == [0, 2]


def test_only_what_was_popped_is_given_back(queue: Queue) -> None:
    popped = queue.pop(1)
    with pytest.raises(ValueError, match="popped"):
        queue.give_back(ints(1, 2))
    queue.give_back(popped)
    assert queue.members().tolist() == queue.pop(1 << 60).tolist() == [2, 0]
    assert queue.pop(1).tolist() == queue.members().tolist() == []


def test_whoever_says_nonsense_about_leaves_gets_no_more_than_there_are(trees: Trees) -> None:
    asked = ints(*range(SLOTS))
    for _ in range(3):
        gone, kept = trees.leave(asked, np.zeros(SLOTS, np.bool_), SIZES, 99)
        assert len(gone) + len(kept) <= 2
    trees.forget(asked, ints())


def test_more_than_fits_is_refused() -> None:
    for kind in (Queue, Trees):
        with pytest.raises(MemoryError):
            kind((1 << 30) + 1)
        kind(0)


@pytest.mark.parametrize("most", [0, 3, 1 << 31])
def test_recent_is_counted_across_the_end_of_the_numbers(most: int) -> None:
    ghosts, prints = Ghosts(64), np.arange(1, 9, dtype=np.uint64) << np.uint64(33)
    numbers = (np.arange(8) + (1 << 32) - 4).astype(np.uint32)
    numbers[4] = 1  # not 0, which says nothing
    ghosts.tell(prints, numbers)
    ages = (np.uint32(5) - numbers).astype(np.int64)
    assert ghosts.recent(prints, 5, most).tolist() == (ages <= most).tolist()
    assert not ghosts.recent(prints + np.uint64(1 << 40), 5, (1 << 32) - 1).any()
