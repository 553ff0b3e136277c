"""Which ranges a batch touches, and what each must be shown by."""

from __future__ import annotations

import numpy as np
import pytest

from kvferry._core import Descriptors
from kvferry.errors import UsageError
from kvferry.link.hixl.memory import Known, Ranges, newest
from kvferry.runtime import Place

HOST, DEVICE = Place.HOST, Place.DEVICE
HERE = Ranges([Known(4096, 100, HOST, 3), Known(8192, 50, DEVICE, 7), Known(4196, 100, HOST, 5)])
THERE = Ranges([Known(1 << 40, 1000, HOST, 4), Known(1 << 41, 1000, DEVICE, 9)])
FAR = 1 << 40


def batch(*rows: tuple[int, int, int]) -> Descriptors:
    return Descriptors(np.array(rows, np.uint64))


@pytest.mark.parametrize(
    ("rows", "number"),
    [
        ([(4096, FAR, 100)], 4),
        ([(4196, FAR, 1), (4200, FAR + 10, 50)], 5),
        ([(4096, FAR, 10), (4196, FAR, 10)], 5),
        ([(8192, FAR, 50)], 7),
        ([(8200, 1 << 41, 5)], 9),
    ],
)
def test_the_youngest_range_counts(rows: list[tuple[int, int, int]], number: int) -> None:
    assert newest(batch(*rows), HERE, THERE, "peer") == number


@pytest.mark.parametrize(
    ("rows", "index"),
    [
        ([(4095, FAR, 1)], 0),
        ([(4096, FAR, 100), (4190, FAR, 20)], 1),  # over two registered ranges
        ([(8192, FAR, 51)], 0),
        ([(0, FAR, 1)], 0),
    ],
)
def test_local_memory_must_be_registered(rows: list[tuple[int, int, int]], index: int) -> None:
    with pytest.raises(UsageError, match="not registered") as caught:
        newest(batch(*rows), HERE, THERE, "peer")
    assert (caught.value.cause, caught.value.index) == ("not_registered", index)
    assert caught.value.range == (rows[index][0], rows[index][2])


@pytest.mark.parametrize("other", [(8192, FAR, 10), (4096, 1 << 41, 10)])
def test_one_place_a_side(other: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="on a device") as caught:
        newest(batch((4096, FAR, 10), (4100, FAR, 10), other), HERE, THERE, "peer")
    assert (caught.value.cause, caught.value.index) == ("mixed_places", 2)


def test_no_ranges_hold_nothing() -> None:
    assert Ranges([]).find(0, 1) is None
