"""Who left the small queue of S3-FIFO lately."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvferry.store.policies import Memory, Recent, S3Fifo, Slots

SPREAD = np.uint64(0x9E3779B97F4A7C15)


def prints(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64) * SPREAD


def nobody(slots: Slots) -> NDArray[np.bool_]:
    return np.zeros(len(slots), np.bool_)


def test_recent_knows_as_many_as_it_is_asked_for() -> None:
    memory = Recent(64)
    memory.tell(prints(1, 2, 3))
    assert memory.back(prints(1, 2, 3, 4), 2).tolist() == [False, True, True, False]
    memory.tell(prints(4))
    assert memory.back(prints(1, 2, 3, 4), 2).tolist() == [False, False, True, True]
    assert not memory.back(prints(4), 0).any()


class Told(Memory):
    def __init__(self) -> None:
        self.told: list[int] = []

    def tell(self, prints: NDArray[np.uint64]) -> None:
        self.told += prints.tolist()

    def back(self, prints: NDArray[np.uint64], most: int) -> NDArray[np.bool_]:
        return np.isin(prints, self.told)


def test_another_memory_decides_who_joins_the_main_queue() -> None:
    memory = Told()
    policy = S3Fifo(8, memory)
    slots, ones = np.arange(4), np.ones(4, np.int64)
    policy.insert(slots, ones, prints(1, 2, 3, 4))
    assert policy.victims(2, nobody).tolist() == [0, 1]
    assert memory.told == prints(1, 2).tolist()
    policy.insert(slots[:2], ones[:2], prints(2, 5))  # 2 is back, in the main queue
    assert policy.victims(3, nobody).tolist() == [2, 3, 1]
